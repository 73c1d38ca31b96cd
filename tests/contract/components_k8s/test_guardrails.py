"""Guardrails: templates of Model Armor, how a Gateway calls it, and guards in the cluster."""

import json
from typing import Any

import pulumi
import pytest

from gke_inference import (
    ClientGate,
    ModelArmor,
    ModelArmorGate,
    ModelArmorProject,
    NemoGuardrails,
)
from tests.contract.components_k8s.crds import check
from tests.contract.components_k8s.test_client_gate import ARGS, EXTENSION

TEMPLATE = "gcp:modelarmor/template:Template"
NAME = "projects/acme/locations/us-east5/templates/acme-armor"
CALL: dict[str, Any] = {
    "failure": "closed",
    "location": "us-east5",
    "templates": {"llama-3.1-8b": NAME, "sql": NAME},
    "timeout_ms": 1000,
}
GUARD: dict[str, Any] = {
    "failure": "open",
    "phases": ["input", "output"],
    "timeout_ms": 2000.0,
    "url": "http://guardrail-house.serving.svc:9020",
}


def test_a_template_has_the_filters_that_are_on_and_answers_like_a_client_error(recorder):
    filters = {"hate": "high", "prompt_injection": "medium", "sensitive_data": True}
    args: Any = {
        "filters": {**filters, "malicious_urls": False},
        "location": "us-east5",
        "project": "acme",
        "template_id": "acme-armor",
    }
    recorder.run(lambda: ModelArmor("armor", args).template_name)
    found = recorder.one(TEMPLATE).inputs
    assert found["filterConfig"] == {
        "piAndJailbreakFilterSettings": {
            "confidenceLevel": "MEDIUM_AND_ABOVE",
            "filterEnforcement": "ENABLED",
        },
        "raiSettings": {"raiFilters": [{"confidenceLevel": "HIGH", "filterType": "HATE_SPEECH"}]},
        "sdpSettings": {"basicConfig": {"filterEnforcement": "ENABLED"}},
    }
    metadata = found["templateMetadata"]
    assert metadata["enforcementType"] == "INSPECT_AND_BLOCK"
    assert metadata["customPromptSafetyErrorCode"] == 400
    assert metadata["logSanitizeOperations"] is False


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"filters": {}}, "filters: must have one filter or more, got none"),
        (
            {"filters": {"hate": "some"}},
            "filters.hate: must be one of low, medium, high, got 'some'",
        ),
        ({"enforcement": "warn"}, "enforcement: must be one of block, inspect, got 'warn'"),
    ],
)
def test_a_template_that_cannot_be_is_refused(recorder, changes, message):
    base = {"filters": {"hate": "low"}, "location": "l", "project": "p", "template_id": "t"}
    args: Any = {**base, **changes}
    with pytest.raises(pulumi.InputPropertyError) as refused:
        recorder.run(lambda: ModelArmor("armor", args).template_name)
    assert f"{refused.value.property_path}: {refused.value.reason}" == message


def test_the_agent_of_load_balancers_may_call_and_the_project_has_a_floor_if_asked(recorder):
    args: Any = {"project": "acme", "project_number": "7", "floor": {"malicious_urls": True}}
    member = recorder.run(lambda: ModelArmorProject("armor", args).agent)
    assert member == "serviceAccount:service-7@gcp-sa-dep.iam.gserviceaccount.com"
    identity = recorder.one("gcp:projects/serviceIdentity:ServiceIdentity").inputs
    assert identity == {"project": "acme", "service": "networkservices.googleapis.com"}
    kind = "gcp:projects/iAMMember:IAMMember"
    agent = "gcp:projects/serviceIdentity:ServiceIdentity::armor-agent-identity"
    for (type_, _), request in recorder.requests.items():
        if type_ == kind:
            assert any(urn.endswith(agent) for urn in request.dependencies)
    grants = recorder.all(kind)
    assert {grant.inputs["member"] for grant in grants} == {member}
    assert {grant.inputs["role"] for grant in grants} == {
        "roles/modelarmor.calloutUser",
        "roles/modelarmor.user",
        "roles/serviceusage.serviceUsageConsumer",
    }
    floor = recorder.one("gcp:modelarmor/floorsetting:Floorsetting").inputs
    assert (floor["parent"], floor["enableFloorSettingEnforcement"]) == ("projects/acme", True)


def test_the_chain_asks_the_gate_first_and_then_model_armor(recorder):
    args: Any = {**ARGS, "armor": [CALL, {**CALL, "failure": "open", "timeout_ms": 500.0}]}
    recorder.run(lambda: ClientGate("gate", args).extension_name)
    extension = recorder.one(EXTENSION).inputs
    check(extension)
    (chain,) = extension["spec"]["extensionChains"]
    clients, closed, opened = chain["extensions"]
    assert clients["name"] == "clients"
    assert closed["googleAPIServiceName"] == "modelarmor.us-east5.rep.googleapis.com"
    assert (closed["failOpen"], opened["failOpen"]) == (False, True)
    assert (closed["timeout"], opened["timeout"]) == ("1000ms", "500ms")
    assert json.loads(closed["metadata"]["model_armor_settings"])[1] == {
        "model": "sql",
        "model_response_template_id": NAME,
        "user_prompt_template_id": NAME,
    }


def test_a_gateway_without_clients_calls_model_armor_alone(recorder):
    args: Any = {
        "calls": [CALL],
        "gate_name": "guardrails",
        "gateway_name": "inference",
        "namespace": "serving",
    }
    recorder.run(lambda: ModelArmorGate("gate", args).extension_name)
    extension = recorder.one(EXTENSION).inputs
    check(extension)
    assert len(extension["spec"]["extensionChains"][0]["extensions"]) == 1
    many: Any = {**args, "calls": [CALL] * 4}
    with pytest.raises(pulumi.InputPropertyError, match="must have at most 3 entries, got 4"):
        recorder.run(lambda: ModelArmorGate("many", many).extension_name)


def test_a_guard_is_available_scraped_and_has_no_rights(recorder):
    args: Any = {"guard_name": "guardrail-house", "namespace": "serving", "replicas": 3.0}
    url = recorder.run(lambda: NemoGuardrails("house", args).url)
    assert url == "http://guardrail-house.serving.svc:9020"
    check(recorder.one("kubernetes:monitoring.googleapis.com/v1:PodMonitoring").inputs)
    deployment = recorder.one("kubernetes:apps/v1:Deployment").inputs
    assert deployment["spec"]["replicas"] == 3
    pod = deployment["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["containers"][0]["args"] == ["--port=9020"]
    assert pod["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is True
    assert not recorder.all("kubernetes:core/v1:ConfigMap")
    recorder.one("kubernetes:policy/v1:PodDisruptionBudget")


def test_rails_of_a_stack_are_files_and_new_ones_restart_the_guard(recorder):
    args: Any = {"guard_name": "g", "namespace": "serving", "files": {"config.yml": "models: []"}}
    recorder.run(lambda: NemoGuardrails("one", args).url)
    changed: Any = {**args, "files": {"config.yml": "models: [] "}}
    recorder.run(lambda: NemoGuardrails("two", changed).url)
    one, two = recorder.all("kubernetes:apps/v1:Deployment")
    template = one.inputs["spec"]["template"]
    assert (
        template["metadata"]["annotations"]
        != (two.inputs["spec"]["template"]["metadata"]["annotations"])
    )
    assert template["spec"]["containers"][0]["args"][-1] == "--config=/etc/guardrails"
    data = recorder.all("kubernetes:core/v1:ConfigMap")[0].inputs["data"]
    assert data == {"config.yml": "models: []"}


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"rails.co": ""}, "must have a file config.yml, got rails.co"),
        (
            {"config.yml": "x" * 1_000_001},
            "must have at most 1000000 bytes in all files, as a ConfigMap has, got 1000001",
        ),
    ],
)
def test_rails_that_cannot_be_are_refused(recorder, files, message):
    args: Any = {"guard_name": "g", "namespace": "serving", "files": files}
    with pytest.raises(pulumi.InputPropertyError, match=message):
        recorder.run(lambda: NemoGuardrails("one", args).url)


def test_the_gate_is_told_its_guards_and_who_is_guarded(recorder):
    teams = {"assistant": {"guardrails": ["house"]}}
    args: Any = {
        **ARGS,
        "guarded_models": {"llama-3.1-8b": ["house"]},
        "guards": {"house": GUARD},
        "teams": teams,
    }
    recorder.run(lambda: ClientGate("gate", args).extension_name)
    text = recorder.one("kubernetes:core/v1:ConfigMap").inputs["data"]["callout.yaml"]
    found = json.loads(text)
    assert found["guards"] == {"house": {**GUARD, "timeout_ms": 2000}}
    assert '"timeout_ms": 2000' in text
    assert '"timeout_ms": 2000.0' not in text
    assert found["models"] == {"llama-3.1-8b": {"guards": ["house"]}}
    assert found["teams"]["assistant"]["guards"] == ["house"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"guards": {"house": {**GUARD, "failure": "maybe"}}},
            "guards.house.failure: must be one of closed, open, got 'maybe'",
        ),
        (
            {"guards": {"house": {**GUARD, "phases": []}}},
            "guards.house.phases: must have at least 1 entry, got 0",
        ),
        (
            {"guards": {"house": {**GUARD, "timeout_ms": 0}}},
            "guards.house.timeoutMs: must be 10 to 10000, got 0",
        ),
        (
            {"guarded_models": {"m": ["house"]}},
            "guardedModels.m: must be a name of guards, got 'house'",
        ),
        ({"armor": [CALL] * 3}, "armor: must have at most 2 entries, got 3"),
    ],
)
def test_a_gate_with_guards_that_cannot_be_is_refused(recorder, changes, message):
    args: Any = {**ARGS, **changes}
    with pytest.raises(pulumi.InputPropertyError) as refused:
        recorder.run(lambda: ClientGate("gate", args).extension_name)
    assert f"{refused.value.property_path}: {refused.value.reason}" == message
