"""Response headers that no client gets: the list, the routes, and the last program to see them."""

import re
from typing import Any, cast

import pulumi
import pytest

from gke_inference import (
    ApigeeGate,
    ApigeeGateArgs,
    ClientGate,
    ClientGateArgs,
    ModelArmorGate,
    ModelArmorGateArgs,
)
from gke_inference.catalogue.response_headers import (
    MOST_IN_A_FILTER,
    hidden_headers,
    hidden_headers_flag,
)
from tests.contract.components_k8s.crds import check
from tests.contract.components_k8s.gateway_args import CUSTOM, DEPLOYMENT, args, build, named
from tests.contract.components_k8s.test_apigee import ARGS as APIGEE
from tests.contract.components_k8s.test_client_gate import ARGS as CLIENTS
from tests.contract.components_k8s.test_guardrails import CALL
from twin.world.rules import all_rules

EXTENSION = "kubernetes:networking.gke.io/v1:GCPTrafficExtension"
ROUTER_CALL = {
    "authority": "inference-body-router.serving.svc",
    "backendRef": {"group": "", "kind": "Service", "name": "inference-body-router", "port": 9004},
    "failOpen": True,
    "name": "response-headers",
    "supportedEvents": ["ResponseHeaders"],
    "timeout": "1s",
}
ARMOR = {
    "calls": [CALL],
    "gate_name": "guardrails",
    "gateway_name": "inference",
    "namespace": "serving",
}
PLACE = {"namespace": "serving", "router_name": "inference-body-router"}


def test_the_headers_fit_into_a_filter_and_load_balancers_reserve_none_of_them():
    names = hidden_headers()
    assert len(names) <= MOST_IN_A_FILTER
    assert names == tuple(sorted({name.lower() for name in names}))
    assert all(re.fullmatch(r"[a-z0-9-]+", name) for name in names)
    reserved = all_rules()["gateway.headers"].value
    assert not set(names) & set(reserved["names"])
    assert not [name for name in names if name.startswith(tuple(reserved["prefixes"]))]
    assert {"content-type", "retry-after", "x-request-id", "x-seed"}.isdisjoint(names)


def test_every_rule_of_a_gateway_removes_them(recorder):
    build(recorder, args())
    removal = {
        "responseHeaderModifier": {"remove": list(hidden_headers())},
        "type": "ResponseHeaderModifier",
    }
    rules = [
        rule for seen in recorder.all(CUSTOM["route"]) for rule in seen.inputs["spec"]["rules"]
    ]
    assert [rule["filters"] for rule in rules] == [[removal]] * 2


def test_the_body_router_removes_them_on_a_gateway_without_another_traffic_extension(recorder):
    build(recorder, {**args(), "cleans_responses": True})
    extension = recorder.one(EXTENSION).inputs
    check(extension)
    assert extension["spec"] == {
        "extensionChains": [{"extensions": [ROUTER_CALL], "name": "responses"}],
        "targetRefs": [
            {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "inference"}
        ],
    }
    pod = named(recorder, DEPLOYMENT, "inference-body-router")["spec"]["template"]["spec"]
    assert hidden_headers_flag() in pod["containers"][0]["args"]


def test_a_gateway_has_no_traffic_extension_unless_it_is_asked_for(recorder):
    build(recorder, args())
    assert recorder.all(EXTENSION) == []


def test_the_client_gate_removes_them_itself(recorder):
    recorder.run(lambda: ClientGate("gate", cast(ClientGateArgs, CLIENTS)).extension_name)
    pod = recorder.one(DEPLOYMENT).inputs["spec"]["template"]["spec"]
    assert hidden_headers_flag() in pod["containers"][0]["args"]
    (chain,) = recorder.one(EXTENSION).inputs["spec"]["extensionChains"]
    assert "ResponseHeaders" in chain["extensions"][0]["supportedEvents"]


def test_with_model_armor_the_body_router_is_the_last_to_see_a_response(recorder):
    made = cast(ModelArmorGateArgs, {**ARMOR, **PLACE})
    recorder.run(lambda: ModelArmorGate("gate", made).extension_name)
    extension = recorder.one(EXTENSION).inputs
    check(extension)
    first, second = extension["spec"]["extensionChains"][0]["extensions"]
    assert (first, second["name"]) == (ROUTER_CALL, "model-armor-closed")
    many: Any = {**made, "calls": [CALL] * 3}
    with pytest.raises(pulumi.InputPropertyError, match="must be 1 to 2, got 3"):
        recorder.run(lambda: ModelArmorGate("many", many).extension_name)


def test_with_apigee_the_body_router_is_the_last_to_see_a_response(recorder):
    made = cast(ApigeeGateArgs, {**APIGEE, **PLACE})
    recorder.run(lambda: ApigeeGate("apigee", made).product_names)
    extension = recorder.one(EXTENSION).inputs
    check(extension)
    first, second = extension["spec"]["extensionChains"][0]["extensions"]
    assert (first, second["name"]) == (ROUTER_CALL, "apigee")
