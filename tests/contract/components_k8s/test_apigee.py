"""Apigee as the gate of a Gateway: the operator's objects, and what is refused."""

from typing import Any, cast

import pulumi
import pytest

from gke_inference import ApigeeGate, ApigeeGateArgs
from tests.contract.components_k8s.crds import check

ARGS: dict[str, Any] = {
    "environment": "llm",
    "gate_name": "apigee",
    "gateway_name": "acme-gateway",
    "location": "us-east5",
    "namespace": "models",
    "network": "projects/acme/global/networks/acme",
    "products": {
        "search": {"requests": 600},
        "trial": {"interval": 2, "needs_approval": True, "requests": 100, "time_unit": "day"},
    },
    "subnetwork": "projects/acme/regions/us-east5/subnetworks/nodes",
}


@pytest.fixture
def objects(recorder):
    """Returns the objects of a gate by kind, after checking each against its schema."""

    def made(**args: Any) -> dict[str, list[dict[str, Any]]]:
        recorder.run(lambda: ApigeeGate("apigee", cast(ApigeeGateArgs, {**ARGS, **args})))
        found: dict[str, list[dict[str, Any]]] = {}
        for seen in recorder.registrations:
            if seen.type.startswith("kubernetes:"):
                check(seen.inputs)
                found.setdefault(seen.inputs["kind"], []).append(seen.inputs)
        return found

    return made


def test_a_gateway_calls_apigee_for_every_request_and_is_closed_without_it(objects):
    found = objects()
    (backend,) = found["ApigeeBackendService"]
    assert backend["spec"] == {
        "apigeeEnv": "llm",
        "defaultSecurityEnabled": True,
        "locations": [
            {"name": "us-east5", "network": ARGS["network"], "subnetwork": ARGS["subnetwork"]}
        ],
    }
    (extension,) = found["GCPTrafficExtension"]
    assert extension["spec"]["targetRefs"][0]["name"] == "acme-gateway"
    (chain,) = extension["spec"]["extensionChains"]
    assert chain["matchCondition"] == {
        "celExpressions": [{"celMatcher": "!(request.path == '/healthz')"}]
    }, "probes have no key"
    (called,) = chain["extensions"]
    assert called["failOpen"] is False
    name = backend["metadata"]["name"]
    kind = {"group": "apim.googleapis.com", "kind": "ApigeeBackendService", "name": name}
    assert called["backendRef"] == kind
    assert called["metadata"] == {
        "apigee-extension-processor": name,
        "apigee-request-body": "true",
        "apigee-response-body": "true",
    }
    assert (called["timeout"], len(called["supportedEvents"])) == ("1000ms", 6)


def test_the_policies_of_an_own_proxy_replace_those_of_the_operator(objects):
    (extension,) = objects(proxy="token-quotas", timeout_ms=5000)["GCPTrafficExtension"]
    (called,) = extension["spec"]["extensionChains"][0]["extensions"]
    assert called["metadata"]["apigee-extension-processor"] == "token-quotas"
    assert called["backendRef"]["name"] == "apigee"
    assert called["timeout"] == "5000ms"


def test_each_product_has_its_quota_on_the_paths_of_the_models(objects):
    found = objects()
    approvals = {each["metadata"]["name"]: each["spec"] for each in found["APIProduct"]}
    assert {name: spec["approvalType"] for name, spec in approvals.items()} == {
        "search": "auto",
        "trial": "manual",
    }
    assert {name: spec["name"] for name, spec in approvals.items()} == {
        "search": "search",
        "trial": "trial",
    }
    (enforced,) = approvals["search"]["enforcementRefs"]
    assert (enforced["name"], enforced["namespace"]) == ("apigee", "models")
    sets = {each["metadata"]["name"]: each["spec"] for each in found["APIOperationSet"]}
    assert sets["search"]["quota"] == {"interval": 1, "limit": 600, "timeUnit": "minute"}
    assert sets["trial"]["quota"] == {"interval": 2, "limit": 100, "timeUnit": "day"}
    assert [each["name"] for each in sets["trial"]["apiProductRefs"]] == ["trial"]
    assert {each["path"]: each["methods"] for each in sets["trial"]["restOperations"]} == {
        "/v1/chat/completions": ["POST"],
        "/v1/completions": ["POST"],
        "/v1/embeddings": ["POST"],
        "/v1/images/generations": ["POST"],
        "/v1/videos/sync": ["POST"],
        "/v1/models": ["GET"],
        "/v1/rerank": ["POST"],
        "/v1/responses": ["POST"],
        "/v1/score": ["POST"],
    }


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"products": {}}, "must have at least 1 entry, got 0"),
        ({"products": {"a": {"requests": 0}}}, "must be 1 to 1000000000000, got 0"),
        ({"products": {"a": {"requests": 1, "time_unit": "year"}}}, "must be one of"),
        ({"timeout_ms": 5}, "10"),
    ],
)
def test_wrong_arguments_are_refused(recorder, change, expected):
    with pytest.raises(pulumi.InputPropertyError, match=expected):
        recorder.run(lambda: ApigeeGate("apigee", cast(ApigeeGateArgs, {**ARGS, **change})))
