"""Routing and traffic extensions translated: which programs see which requests."""

from typing import Any

import pytest

from twin.cluster.gateway.translation.cel import parse
from twin.cluster.gateway.translation.chains import duration_seconds
from twin.cluster.gateway.translation.model import Endpoint
from twin.cluster.gateway.translation.translate import translate
from twin.tests.unit.gateway.builders import (
    body_router,
    conditions,
    gateway,
    gateway_class,
    snapshot,
    traffic_extension,
)

GW = ("ns", "gw")
CLOSED = "; the Gateway rejects every request"
ROUTING, TRAFFIC = "GCPRoutingExtension", "GCPTrafficExtension"


def message_of(translation, kind, name):
    status = next(u.status for u in translation.statuses if (u.kind, u.key[1]) == (kind, name))
    return status["ancestors"][0]["conditions"][0]["message"]


def is_closed(chains) -> bool:
    """Return whether every request goes to a program that is not there and must answer."""
    if len(chains) != 1 or chains[0].conditions:
        return False
    (processor,) = chains[0].processors
    return processor.endpoints == () and not processor.fail_open


def test_the_body_router_sees_requests_before_routes_are_chosen():
    found = translate(snapshot(gateway(), *body_router()))
    (chain,) = found.gateways[GW].routing_chains
    (processor,) = chain.processors
    assert processor.name == "extension/ns/bbr/chain/bbr"
    assert processor.endpoints == (Endpoint("127.64.9.9", 9004),)
    assert processor.authority == "models.example.com"
    assert processor.full_duplex is True
    assert conditions(found, ROUTING, "bbr") == {"Accepted": "Accepted"}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"supportedEvents": ["RequestHeaders", "RequestBody"]}, "!UnsupportedValue"),
        ({"supportedEvents": ["RequestHeaders", "ResponseBody"]}, "!UnsupportedValue"),
        ({"backendRef": None, "googleAPIServiceName": "x.rep"}, "!UnsupportedValue"),
        ({"timeout": None}, "!UnsupportedValue"),
    ],
)
def test_a_routing_extension_that_cannot_run_closes_its_gateway(fields, reason):
    found = translate(snapshot(gateway(), *body_router(**fields)))
    assert is_closed(found.gateways[GW].routing_chains)
    assert conditions(found, ROUTING, "bbr") == {"Accepted": reason}


def test_a_routing_extension_without_its_service_is_not_called():
    found = translate(snapshot(gateway(), *body_router(backendRef={"name": "gone", "port": 1})))
    assert found.gateways[GW].routing_chains == ()
    assert conditions(found, ROUTING, "bbr") == {"Accepted": "!BackendNotFound"}


def test_an_extension_must_be_in_the_namespace_of_its_gateway():
    elsewhere = body_router()
    elsewhere[0]["metadata"]["namespace"] = "elsewhere"
    found = translate(snapshot(gateway(), *elsewhere))
    assert found.gateways[GW].routing_chains == ()
    reasons = conditions(found, ROUTING, "bbr", "elsewhere")
    assert reasons == {"Accepted": "!TargetNotFound"}


def test_a_chain_of_a_routing_extension_has_one_extension():
    extension = body_router()
    extension[0]["spec"]["extensionChains"][0]["extensions"] *= 2
    found = translate(snapshot(gateway(), *extension))
    assert is_closed(found.gateways[GW].routing_chains)
    message = message_of(found, ROUTING, "bbr")
    assert message == f"chain chain.extensions: must be at most 1, got 2{CLOSED}"


def test_a_traffic_extension_is_called_as_it_asks():
    fields = {
        "supportedEvents": [
            f"{side}{part}"
            for side in ("Request", "Response")
            for part in ("Headers", "Body", "Trailers")
        ],
        "requestBodySendMode": "FullDuplexStreamed",
        "responseBodySendMode": "FullDuplexStreamed",
        "failOpen": True,
        "forwardHeaders": ["Authorization"],
        "metadata": {"mode": "strict"},
    }
    found = translate(snapshot(gateway(), *traffic_extension(**fields)))
    assert found.gateways[GW].routing_chains == ()
    (chain,) = found.gateways[GW].traffic_chains
    assert (chain.name, chain.conditions) == ("ns/guard/chain", ())
    (processor,) = chain.processors
    assert processor.name == "traffic/ns/guard/chain/guard"
    assert processor.endpoints == (Endpoint("127.64.9.10", 9010),)
    assert len(processor.events) == 6
    assert (processor.full_duplex, processor.full_duplex_response) == (True, True)
    assert (processor.fail_open, processor.timeout_seconds) == (True, 0.5)
    assert processor.stream_seconds == 30
    assert processor.forward_headers == ("authorization",)
    assert processor.metadata == (("mode", "strict"),)
    assert conditions(found, TRAFFIC, "guard") == {"Accepted": "Accepted"}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"backendRef": None, "googleAPIServiceName": "modelarmor.us-east5.rep.googleapis.com"},
            "extension guard: the twin calls Services, and Model Armor of the Gateway's own "
            "region, got modelarmor.us-east5.rep.googleapis.com",
        ),
        (
            {"backendRef": {"kind": "GCPWasmPlugin", "name": "plugin"}},
            "extension guard.backendRef: the twin calls Services only, got GCPWasmPlugin plugin",
        ),
        (
            {"supportedEvents": []},
            "extension guard.supportedEvents: must have at least one event, got none",
        ),
        (
            {"responseBodySendMode": "FullDuplexStreamed"},
            "extension guard.supportedEvents: must have ResponseBody and ResponseTrailers with "
            "responseBodySendMode FullDuplexStreamed, got RequestHeaders, ResponseHeaders, "
            "ResponseBody",
        ),
        (
            {"requestBodySendMode": "Streamed"},
            "extension guard.supportedEvents: must have RequestBody with requestBodySendMode "
            "Streamed, got RequestHeaders, ResponseHeaders, ResponseBody",
        ),
        (
            {"timeout": "11s"},
            "extension guard.timeout: must be 10 to 10000 milliseconds, got 11s",
        ),
        (
            {"metadata": {"k": "x" * 1023}},
            "extension guard.metadata: must be at most 16 keys and 1023 bytes, "
            "got 1 keys and 1024 bytes",
        ),
        (
            {"metadata": {"rule": "{forwarding_rule_id}"}},
            "extension guard.metadata: the twin replaces no {forwarding_rule_id}",
        ),
    ],
)
def test_a_traffic_extension_that_the_twin_cannot_run_closes_its_gateway(fields, message):
    found = translate(snapshot(gateway(), *traffic_extension(**fields)))
    assert is_closed(found.gateways[GW].traffic_chains)
    assert message_of(found, TRAFFIC, "guard") == message + CLOSED


@pytest.mark.parametrize("field", ["failOpen", "observabilityMode"])
def test_an_extension_that_may_fail_is_left_out_if_the_twin_cannot_run_it(field):
    wasm: dict[str, Any] = {"backendRef": {"kind": "GCPWasmPlugin", "name": "plugin"}, field: True}
    found = translate(snapshot(gateway(), *traffic_extension(**wasm)))
    assert found.gateways[GW].traffic_chains == ()
    assert conditions(found, TRAFFIC, "guard") == {"Accepted": "!UnsupportedValue"}
    assert CLOSED not in message_of(found, TRAFFIC, "guard")


def test_one_program_that_must_answer_closes_the_gateway_for_all_of_its_extension():
    extension = traffic_extension(failOpen=True)
    (chain,) = extension[0]["spec"]["extensionChains"]
    wasm = {**chain["extensions"][0], "name": "quota", "failOpen": False}
    wasm["backendRef"] = {"kind": "GCPWasmPlugin", "name": "plugin"}
    chain["extensions"].append(wasm)
    found = translate(snapshot(gateway(), *extension))
    assert is_closed(found.gateways[GW].traffic_chains)
    assert "got GCPWasmPlugin plugin" in message_of(found, TRAFFIC, "guard")


def test_a_traffic_extension_without_its_service_is_called_in_vain():
    found = translate(snapshot(gateway(), traffic_extension()[0]))
    (chain,) = found.gateways[GW].traffic_chains
    assert chain.processors[0].endpoints == ()
    assert conditions(found, TRAFFIC, "guard") == {"Accepted": "!BackendNotFound"}


@pytest.mark.parametrize(
    ("name", "routing", "traffic"),
    [
        ("gke-l7-regional-external-managed", "Accepted", "Accepted"),
        ("gke-l7-rilb", "Accepted", "Accepted"),
        ("gke-l7-global-external-managed", "!UnsupportedValue", "Accepted"),
        ("gke-l7-cross-regional-internal-managed-mc", "!UnsupportedValue", "!UnsupportedValue"),
        ("gke-l7-gxlb", "!UnsupportedValue", "!UnsupportedValue"),
    ],
)
def test_extensions_run_on_the_classes_that_take_them(name, routing, traffic):
    objects = [gateway_class(name), gateway(gatewayClassName=name)]
    found = translate(snapshot(*objects, *body_router(), *traffic_extension()))
    assert conditions(found, ROUTING, "bbr") == {"Accepted": routing}
    assert conditions(found, TRAFFIC, "guard") == {"Accepted": traffic}


def test_the_oldest_of_two_traffic_extensions_of_a_gateway_is_called():
    young, old = traffic_extension()[0], traffic_extension()[0]
    young["metadata"] |= {"name": "a", "creationTimestamp": "2026-02-02T00:00:00Z"}
    old["metadata"] |= {"name": "b", "creationTimestamp": "2026-01-01T00:00:00Z"}
    found = translate(snapshot(gateway(), young, old, *traffic_extension()[1:]))
    (chain,) = found.gateways[GW].traffic_chains
    assert chain.name == "ns/b/chain"
    assert conditions(found, TRAFFIC, "a") == {"Accepted": "!Conflicted"}
    assert conditions(found, TRAFFIC, "b") == {"Accepted": "Accepted"}


def test_an_extension_may_be_refused_by_one_gateway_and_called_by_another():
    extension = traffic_extension()
    ref = extension[0]["spec"]["targetRefs"][0]
    extension[0]["spec"]["targetRefs"] = [ref, {**ref, "name": "other"}]
    classic = gateway("other", gatewayClassName="gke-l7-gxlb", addresses=[{"value": "127.0.0.9"}])
    objects = [gateway_class("gke-l7-gxlb"), gateway(), classic, *extension]
    found = translate(snapshot(*objects))
    status = next(u.status for u in found.statuses if u.kind == TRAFFIC)
    reasons = [a["conditions"][0]["reason"] for a in status["ancestors"]]
    assert reasons == ["Accepted", "UnsupportedValue"]


def test_chains_after_one_without_a_condition_are_left_out():
    extension = traffic_extension()
    (chain,) = extension[0]["spec"]["extensionChains"]
    extension[0]["spec"]["extensionChains"] = [
        {**chain, "name": "some", "matchCondition": match("request.method == 'GET'")},
        {**chain, "name": "all"},
        {**chain, "name": "never", "matchCondition": match("request.method == 'PUT'")},
    ]
    found = translate(snapshot(gateway(), *extension))
    first, second = found.gateways[GW].traffic_chains
    assert first.conditions == (parse("request.method == 'GET'"),)
    assert (second.name, second.conditions) == ("ns/guard/all", ())


def match(*expressions):
    return {"celExpressions": [{"celMatcher": e} for e in expressions]}


def test_one_of_several_expressions_is_enough():
    extension = traffic_extension()
    both = match("request.method == 'GET'", "request.method == 'PUT'")
    extension[0]["spec"]["extensionChains"][0]["matchCondition"] = both
    (chain,) = translate(snapshot(gateway(), *extension)).gateways[GW].traffic_chains
    assert len(chain.conditions) == 2


def test_a_condition_on_a_backend_is_refused():
    extension = traffic_extension()
    condition = {"celExpressions": [{"backendRefs": [{"name": "w", "port": 80}]}]}
    extension[0]["spec"]["extensionChains"][0]["matchCondition"] = condition
    found = translate(snapshot(gateway(), *extension))
    assert is_closed(found.gateways[GW].traffic_chains)
    assert "the twin matches no backendRefs" in message_of(found, TRAFFIC, "guard")


ARMOR = "modelarmor.us-east5.rep.googleapis.com"
EVENTS = [
    f"{side}{part}" for side in ("Request", "Response") for part in ("Headers", "Body", "Trailers")
]


def armored(**fields):
    wanted: dict[str, Any] = {
        "backendRef": None,
        "googleAPIServiceName": ARMOR,
        "metadata": {"model_armor_settings": "[]"},
        "supportedEvents": EVENTS,
        **fields,
    }

    def lookup(name):
        return ("127.0.0.1", 7) if name == ARMOR else None

    return translate(snapshot(gateway(), *traffic_extension(**wanted), google_api=lookup))


def test_model_armor_of_the_gateways_region_is_called_with_bodies_as_they_come():
    found = armored()
    (chain,) = found.gateways[GW].traffic_chains
    (processor,) = chain.processors
    assert processor.endpoints == (Endpoint("127.0.0.1", 7),)
    assert (processor.full_duplex, processor.full_duplex_response) == (True, True)
    assert processor.tls is False
    assert conditions(found, TRAFFIC, "guard") == {"Accepted": "Accepted"}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"googleAPIServiceName": "modelarmor.us-west1.rep.googleapis.com"},
            "extension guard: the twin calls Services, and Model Armor of the Gateway's own "
            "region, got modelarmor.us-west1.rep.googleapis.com",
        ),
        (
            {"supportedEvents": EVENTS[:2]},
            "extension guard.supportedEvents: Model Armor takes all of them, missing are "
            "RequestTrailers, ResponseBody, ResponseHeaders, ResponseTrailers",
        ),
        (
            {"metadata": {"model_armor_settings": "{}"}},
            "extension guard.metadata.model_armor_settings: must be a JSON list of models and "
            "templates",
        ),
    ],
)
def test_a_call_of_model_armor_that_cannot_be_is_refused(fields, message):
    found = armored(**fields)
    assert is_closed(found.gateways[GW].traffic_chains)
    assert message_of(found, TRAFFIC, "guard") == message + CLOSED


@pytest.mark.parametrize(
    ("text", "seconds"), [("500ms", 0.5), ("1m30s", 90), ("2h", 7200), ("1s250ms", 1.25)]
)
def test_a_duration_of_the_gateway_api_is_read_in_seconds(text, seconds):
    assert duration_seconds(text) == seconds
