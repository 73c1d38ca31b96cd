"""A canary of a stack: a second version, served like a model under the name of the first."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from infra.deploy import serving_arguments as assemble_models
from infra.deploy.observability import observed_models
from infra.plan import CanaryVersion, resolve
from infra.reading.load import parse
from infra.stack import Platform
from tests.contract.infra.broken_stacks import edited
from tests.contract.infra.cloud import Deployed
from tests.contract.infra.resolved import served_in
from tests.contract.recorder import Records

MODEL, SECOND = "llama-3.1-8b", "llama-3.1-8b-v2"
ROUTE = "kubernetes:gateway.networking.k8s.io/v1:HTTPRoute"
DEPLOYMENT = "kubernetes:apps/v1:Deployment"
GONE = "NoReadyReplica"

Built = Callable[..., Records]


def platform(**canary: Any) -> Platform:
    """Return the local stack with a canary."""
    value = {"version": "v2", "weights": "llama-3.1-8b-v2", **canary}
    changed = edited("local", [{"at": ["models", MODEL, "canary"], "value": value}])
    return parse(json.dumps(changed))


@pytest.fixture
def built(deployed: Deployed) -> Built:
    """Return a function that deploys the local stack with a canary."""
    return lambda **canary: deployed(platform(**canary))


def by_name(recorder: Records, kind: str) -> dict[str, Any]:
    return recorder.objects(kind)


def test_the_second_version_is_a_model_with_the_weights_and_replicas_of_its_own() -> None:
    own = {"min": 2, "max": 3, "standby": 0}
    whole = platform(percent=10, replicas=own)
    second = served_in(whole, SECOND, "us-central1")
    assert second.version == CanaryVersion(MODEL, "v2", 10)
    assert (second.replicas.min, second.replicas.max, second.standby) == (2, 3, 0)
    args: Any = assemble_models.server_args(second)
    assert args["model"] == "llama-3-1-8b-v2"
    assert args["served_name"] == MODEL
    assert args["weights"].endswith("/llama-3.1-8b-v2")
    assert args["adapters"]["sql"] == f"{args['weights']}/adapters/sql"
    assert (args["replicas"].min, args["replicas"].max) == (2, 3)


def test_a_canary_has_as_many_replicas_as_the_model_unless_it_says_otherwise() -> None:
    (first,), (second,) = (resolve(platform()).models[name] for name in (MODEL, SECOND))
    assert (second.replicas.min, second.replicas.max) == (1, 4)
    assert (first.replicas.min, first.replicas.max) == (1, 4)


def test_a_stack_without_a_canary_stays_as_it_is() -> None:
    plain = parse(json.dumps(edited("local", [])))
    found = resolve(plain).models
    assert {name: each.settings for name, (each,) in found.items()} == dict(plain.models)


def test_a_canary_brings_a_pool_a_picker_and_servers_and_changes_none_of_the_first(
    built: Built,
) -> None:
    recorder = built(percent=10)
    pools = by_name(recorder, "kubernetes:inference.networking.k8s.io/v1:InferencePool")
    assert set(pools) == {"llama-3-1-8b", "llama-3-1-8b-v2"}
    selectors = {name: pool["spec"]["selector"]["matchLabels"] for name, pool in pools.items()}
    assert selectors["llama-3-1-8b"] != selectors["llama-3-1-8b-v2"]
    deployments = by_name(recorder, DEPLOYMENT)
    assert {
        "llama-3-1-8b-tpu",
        "llama-3-1-8b-v2-tpu",
        "llama-3-1-8b-v2-gpu",
        "llama-3-1-8b-v2-picker",
    } <= set(deployments)
    text = json.dumps(deployments["llama-3-1-8b-v2-tpu"])
    assert f"--served-model-name={MODEL}" in text
    labels = deployments["llama-3-1-8b-v2-tpu"]["spec"]["template"]["metadata"]["labels"]
    assert selectors["llama-3-1-8b-v2"].items() <= labels.items()


@pytest.mark.parametrize(("percent", "weights"), [(0, [100, 0]), (10, [90, 10]), (100, [0, 100])])
def test_promotion_and_rollback_change_two_weights_and_nothing_else(
    built: Built, percent: int, weights: list[int]
) -> None:
    route = by_name(built(percent=percent), ROUTE)["llama-3-1-8b"]
    (rule,) = route["spec"]["rules"]
    assert [(ref["name"], ref["weight"]) for ref in rule["backendRefs"]] == [
        ("llama-3-1-8b", weights[0]),
        ("llama-3-1-8b-v2", weights[1]),
    ]
    names = [match["headers"][0]["value"] for match in rule["matches"]]
    assert names == [MODEL, "sql", "support"]


def test_a_header_pins_either_version_for_the_model_and_its_adapters(
    built: Built,
) -> None:
    rules = by_name(built(percent=10), ROUTE)["llama-3-1-8b-v2-pinned"]["spec"]["rules"]
    found = {
        tuple(header["value"] for header in match["headers"]): rule["backendRefs"][0]["name"]
        for rule in rules
        for match in rule["matches"]
    }
    assert found == {
        (name, version): pool
        for name in (MODEL, "sql", "support")
        for version, pool in (("v2", "llama-3-1-8b-v2"), ("stable", "llama-3-1-8b"))
    }


def test_the_catalogue_lists_the_name_once(built: Built) -> None:
    maps = by_name(built(percent=10), "kubernetes:core/v1:ConfigMap")
    (catalogue,) = [m for name, m in maps.items() if name.endswith("catalogue")]
    listed = [entry["id"] for entry in json.loads(catalogue["data"]["models.json"])["data"]]
    assert listed == [MODEL, "sql", "support"]


def test_a_canary_is_watched_like_any_model(built: Built) -> None:
    recorder = built(percent=10)
    deployments = by_name(recorder, DEPLOYMENT)
    watched = {model["job"]: model["deployments"] for model in observed_models(resolve(platform()))}
    assert watched["llama-3-1-8b-v2"] == ["llama-3-1-8b-v2-gpu", "llama-3-1-8b-v2-tpu"]
    assert set(watched["llama-3-1-8b-v2"]) <= set(deployments)
    policies = recorder.all("gcp:monitoring/alertPolicy:AlertPolicy")
    (gone,) = [p.inputs for p in policies if p.inputs["conditions"][0]["displayName"] == GONE]
    assert 'job="llama-3-1-8b-v2"' in json.dumps(gone["conditions"]).replace("\\", "")
