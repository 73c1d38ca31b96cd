"""Guardrails of a stack: what a region builds for them, and what stays as it was without them."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from infra.bootstrap.ci import deploy_roles
from infra.bootstrap.settings import StackSettings
from infra.estimate.stack_cost import stack_cost
from infra.plan import resolve
from infra.reading.load import KEY, PROJECT, parse, platform_of
from tests.contract.infra.broken_stacks import edited
from tests.contract.infra.test_clients import TEAMS, settings_of
from tests.shipped_stacks import EXAMPLES

EXTENSION = "kubernetes:networking.gke.io/v1:GCPTrafficExtension"
TEMPLATE = "gcp:modelarmor/template:Template"
FILE = EXAMPLES / "guardrails" / "Pulumi.guarded.yaml"


def example(**changes: Any) -> Any:
    stack = yaml.load(FILE.read_text(), yaml.CSafeLoader)["config"][f"{PROJECT}:{KEY}"]
    return parse(json.dumps({**stack, **changes}))


def with_armor(base: str, **clients: Any) -> Any:
    armor = {"kind": "model-armor", "failure": "closed", "filters": {"hate": "high"}}
    return parse(
        json.dumps(
            edited(
                base,
                [
                    {"at": ["clients"], "value": clients},
                    {"at": ["guardrails"], "value": {"armor": armor}},
                    {"at": ["models", "llama-3.1-8b", "guardrails"], "value": ["armor"]},
                ],
            )
        )
    )


def test_the_gate_asks_the_guards_of_the_example_and_then_model_armor(deployed) -> None:
    seen = deployed(example())
    (settings,) = settings_of(seen)
    guards = {name: model["guards"] for name, model in settings["models"].items()}
    assert guards == {name: ["personal-data"] for name in ("llama-3.1-8b", "sql", "support")}
    assert settings["teams"]["evaluation"]["guards"] == ["house"]
    assert settings["guards"]["house"] == {
        "failure": "open",
        "phases": ["output"],
        "timeout_ms": 2000,
        "url": "http://guardrail-house.models.svc:9020",
    }
    (extension,) = seen.all(EXTENSION)
    names = [one["name"] for one in extension.inputs["spec"]["extensionChains"][0]["extensions"]]
    assert names == ["clients", "model-armor-closed"]
    (template,) = seen.all(TEMPLATE)
    called = extension.inputs["spec"]["extensionChains"][0]["extensions"][1]["metadata"]
    assert json.loads(called["model_armor_settings"])[0]["user_prompt_template_id"] == (
        "projects/{project}/locations/{location}/templates/{templateId}".format(**template.inputs)
    )


def test_rails_of_a_folder_are_in_the_cluster_and_only_the_gate_reaches_guards(deployed) -> None:
    seen = deployed(example())
    rails = seen.object("kubernetes:core/v1:ConfigMap", "guardrail-house")["data"]
    assert sorted(rails) == ["actions.py", "config.yml", "rails.co"]
    policies = seen.all("kubernetes:networking.k8s.io/v1:NetworkPolicy")
    (policy,) = [one for one in policies if one.inputs["metadata"]["name"] == "guardrails"]
    (rule,) = policy.inputs["spec"]["ingress"]
    assert rule["ports"] == [{"port": 9020, "protocol": "TCP"}]
    assert rule["from"][0]["podSelector"]["matchLabels"] == {
        "app.kubernetes.io/component": "client-gate"
    }


def test_a_gateway_without_teams_has_one_extension_for_model_armor(deployed) -> None:
    seen = deployed(with_armor("staging", anonymous="reachable from the office alone"))
    found = seen.all(EXTENSION)
    assert {one.inputs["metadata"]["name"] for one in found} == {"guardrails"}
    assert len(found) == len(seen.all(TEMPLATE))
    for one in found:
        (chain,) = one.inputs["spec"]["extensionChains"]
        called = [each["name"] for each in chain["extensions"]]
        assert called == ["model-armor-closed"]


def apigee() -> Any:
    return parse(json.dumps(platform_of(EXAMPLES / "apigee" / "Pulumi.apigee.yaml")))


@pytest.mark.parametrize(
    "stack", [example, lambda: with_armor("staging", anonymous="for the office"), apigee],
    ids=["client gate", "model armor alone", "apigee"],
)  # fmt: skip
def test_no_gateway_exists_before_or_longer_than_what_checks_its_requests(
    deployed, stack: Callable[[], Any]
) -> None:
    seen = deployed(stack())
    gateways = seen.all("gke-inference:index:InferenceGateway")
    extensions = seen.all(EXTENSION)
    assert len(extensions) == len(gateways) > 0
    for gateway in gateways:
        needed = {urn.rpartition("::")[2] for urn in gateway.dependencies}
        assert needed & {each.name for each in extensions}
    assert not any("InferenceGateway" in urn for one in extensions for urn in one.dependencies)


def test_each_region_has_its_own_template_and_the_project_one_set_of_roles(deployed) -> None:
    prod = with_armor("prod", teams=TEAMS)
    guarded = {"llama-3.1-8b": prod.models["llama-3.1-8b"]}
    seen = deployed(prod.model_copy(update={"models": guarded}))
    found = {one.inputs["location"]: one.inputs["templateId"] for one in seen.all(TEMPLATE)}
    assert sorted(found) == ["asia-northeast1", "europe-west4", "us-central1"]
    assert set(found.values()) == {"acme-prod-armor"}
    roles = [one.inputs["role"] for one in seen.all("gcp:projects/iAMMember:IAMMember")]
    assert roles.count("roles/modelarmor.calloutUser") == 1


def test_what_a_stack_without_guardrails_needs_is_what_it_needed() -> None:
    plain = example(guardrails={}, models=_unguarded(), clients={"teams": TEAMS})
    assert "modelarmor.googleapis.com" in resolve(example()).project.services
    assert "modelarmor.googleapis.com" not in resolve(plain).project.services
    assert "guardrails" in resolve(example()).images.needed
    assert "guardrails" not in resolve(plain).images.needed


def _unguarded() -> Any:
    stack = yaml.load(FILE.read_text(), yaml.CSafeLoader)["config"][f"{PROJECT}:{KEY}"]
    return {name: {**model, "guardrails": []} for name, model in stack["models"].items()}


def test_the_identity_that_deploys_may_make_templates_where_there_are_some() -> None:
    plain = StackSettings(stack="s", prefix="p", location="l")
    armed = StackSettings(stack="s", prefix="p", location="l", has_armor=True)
    assert set(deploy_roles(armed)) - set(deploy_roles(plain)) == {
        "roles/modelarmor.admin",
        "roles/modelarmor.floorSettingsAdmin",
    }


def test_the_cost_names_model_armor_as_without_a_price() -> None:
    cost = stack_cost(resolve(example()))
    assert "Model Armor" in {one.what for one in cost.parts}
    assert any("Model Armor" in str(one) for one in cost.missing)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"failure": None}, "guardrails.house.failure is required"),
        ({"config": "docs/examples"}, "guardrails.house.config must have no folders inside"),
        ({"config": "../other"}, "guardrails.house.config must"),
        ({"config": "docs/adr"}, "guardrails.house.config must have a file config.yml"),
        ({"config": "absent"}, "guardrails.house.config must be a folder of the repository"),
        ({"phases": ["input"]}, "guardrails.house.config must have rails.input.flows"),
        ({"floor": True}, "guardrails.house.floor must not be set when kind is nemo"),
        (
            {"kind": "model-armor"},
            "guardrails.house.config must not be set when kind is model-armor",
        ),
        ({"timeout_ms": 5}, "guardrails.house.timeout_ms must be 10 to 10000"),
    ],
)
def test_a_guardrail_that_cannot_be_is_refused(change: dict[str, Any], message: str) -> None:
    house: dict[str, Any] = {
        "kind": "nemo",
        "failure": "open",
        "phases": ["output"],
        "config": "docs/examples/guardrails/house",
    }
    changed = {name: value for name, value in {**house, **change}.items() if value is not None}
    stack = yaml.load(FILE.read_text(), yaml.CSafeLoader)["config"][f"{PROJECT}:{KEY}"]
    with pytest.raises(Exception, match=message.replace(".", r"\.")):
        example(guardrails={**stack["guardrails"], "house": changed})
