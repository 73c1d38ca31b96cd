"""Response headers that no client gets: the list, the routes, and the client gate."""

import re
from typing import cast

from gke_inference import (
    ClientGate,
    ClientGateArgs,
)
from gke_inference.catalogue.response_headers import (
    MOST_IN_A_FILTER,
    hidden_headers,
    hidden_headers_flag,
)
from tests.contract.components_k8s.gateway_args import CUSTOM, DEPLOYMENT, args, build
from tests.contract.components_k8s.test_client_gate import ARGS as CLIENTS
from twin.world.rules import all_rules

EXTENSION = "kubernetes:networking.gke.io/v1:GCPTrafficExtension"


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


def test_a_gateway_has_no_traffic_extension_of_its_own(recorder):
    build(recorder, args())
    assert recorder.all(EXTENSION) == []


def test_the_client_gate_removes_them_itself(recorder):
    recorder.run(lambda: ClientGate("gate", cast(ClientGateArgs, CLIENTS)).extension_name)
    pod = recorder.one(DEPLOYMENT).inputs["spec"]["template"]["spec"]
    assert hidden_headers_flag() in pod["containers"][0]["args"]
    (chain,) = recorder.one(EXTENSION).inputs["spec"]["extensionChains"]
    assert "ResponseHeaders" in chain["extensions"][0]["supportedEvents"]
