"""Translation of routes and backends: accepted and rejected ones, with reasons."""

from typing import Any

import pytest

from twin.cluster.gateway.translation.model import Endpoint, Match, Target, ValueMatch
from twin.cluster.gateway.translation.translate import translate
from twin.tests.unit.gateway.builders import (
    conditions,
    gateway,
    model,
    obj,
    pod,
    pool,
    route,
    rule,
    service,
    snapshot,
    to_pool,
    to_service,
)

GW = ("ns", "gw")


def routes_of(translation, host="*"):
    return dict(translation.gateways[GW].listeners[0].hosts)[host]


def backend(translation, name) -> Any:
    return next(b for b in translation.gateways[GW].backends if b.name == name)


def test_a_pool_becomes_a_backend_with_its_ready_pods_and_its_picker():
    found = translate(
        snapshot(
            gateway(),
            route("r", rule(to_pool("m"))),
            *model("m"),
            pod("late", "127.64.1.9", {"model": "m"}, ready=False),
        )
    )
    pool_backend = backend(found, "pool/ns/m")
    assert [e.port for e in pool_backend.endpoints] == [8000, 8000]
    assert pool_backend.picker.name == "picker/ns/m"
    assert [e.port for e in pool_backend.picker.endpoints] == [9002]
    assert pool_backend.picker.fail_open is False
    assert pool_backend.picker.tls is True
    assert pool_backend.timeout_seconds == 30
    assert conditions(found, "InferencePool", "m") == {
        "Accepted": "Accepted",
        "ResolvedRefs": "ResolvedRefs",
    }


def test_a_pool_that_fails_open_says_so_to_its_picker():
    found = translate(
        snapshot(gateway(), route("r", rule(to_pool("m"))), *model("m", failure_mode="FailOpen"))
    )
    assert backend(found, "pool/ns/m").picker.fail_open is True


def test_ports_of_pods_are_looked_up_where_they_really_are():
    found = translate(
        snapshot(
            gateway(),
            route("r", rule(to_pool("m"))),
            *model("m"),
            port_of=lambda pod, port: ("127.0.0.1", port + 30000),
        )
    )
    assert backend(found, "pool/ns/m").picker.endpoints == (Endpoint("127.0.0.1", 39002),)


def test_a_pool_whose_picker_service_is_missing_has_unresolved_references():
    found = translate(snapshot(gateway(), route("r", rule(to_pool("m"))), pool("m")))
    assert conditions(found, "InferencePool", "m")["ResolvedRefs"] == "!InvalidExtensionRef"
    assert backend(found, "pool/ns/m").picker.endpoints == ()


def test_a_service_is_resolved_by_selector_and_named_target_port():
    found = translate(
        snapshot(
            gateway(),
            route("r", rule(to_service("web"))),
            service("web", target="web"),
            pod("web-1", "127.64.1.1", {"app": "web"}),
            pod("other", "127.64.1.2", {"app": "other"}),
        )
    )
    web = backend(found, "service/ns/web/80")
    assert web.endpoints == (Endpoint("127.64.1.1", 8081),)
    assert web.picker is None


@pytest.mark.parametrize(
    ("ref", "reason"),
    [
        (to_pool("nowhere"), "!BackendNotFound"),
        (to_service("nowhere"), "!BackendNotFound"),
        (to_service("web", 81), "!BackendNotFound"),
        ({"group": "x.io", "kind": "Thing", "name": "t"}, "!InvalidKind"),
        (to_service("web", namespace="elsewhere"), "!RefNotPermitted"),
    ],
)
def test_a_reference_that_does_not_resolve_is_a_share_without_backend(ref, reason):
    found = translate(snapshot(gateway(), route("r", rule(ref)), service("web")))
    assert conditions(found, "HTTPRoute", "r") == {
        "Accepted": "Accepted",
        "ResolvedRefs": reason,
        "Reconciled": "!ReconciliationFailed",
    }
    assert routes_of(found)[0].targets == (Target(None),)


def test_a_grant_permits_a_reference_to_another_namespace():
    grant = obj(
        "ReferenceGrant",
        "g",
        "elsewhere",
        spec={
            "from": [
                {"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": "ns"}
            ],
            "to": [{"group": "", "kind": "Service"}],
        },
    )
    found = translate(
        snapshot(
            gateway(),
            route("r", rule(to_service("web", namespace="elsewhere"))),
            service("web", namespace="elsewhere"),
            grant,
        )
    )
    assert conditions(found, "HTTPRoute", "r")["ResolvedRefs"] == "ResolvedRefs"


def test_pools_are_backends_of_regional_classes_only():
    name = "gke-l7-global-external-managed"
    klass = {
        "kind": "GatewayClass",
        "metadata": {"name": name},
        "spec": {"controllerName": "networking.gke.io/gateway"},
    }
    found = translate(
        snapshot(klass, gateway(gatewayClassName=name), route("r", rule(to_pool("m"))), *model("m"))
    )
    assert conditions(found, "HTTPRoute", "r")["ResolvedRefs"] == "!InvalidKind"


def test_gateways_of_other_controllers_are_left_alone():
    other = gateway("other", gatewayClassName="istio")
    found = translate(snapshot(other, route("r", rule(), parentRefs=[{"name": "other"}])))
    assert found.gateways == {}
    assert [u.kind for u in found.statuses] == ["GatewayClass"]


def test_weights_are_kept():
    found = translate(
        snapshot(
            gateway(),
            route("r", rule(to_pool("a", weight=90), to_pool("b", weight=10))),
            *model("a"),
            *model("b"),
        )
    )
    first, second = routes_of(found)[0].targets
    assert (first.backend, first.weight) == ("pool/ns/a", 90)
    assert (second.backend, second.weight) == ("pool/ns/b", 10)


def test_matches_are_read_with_header_names_in_lower_case():
    match = {
        "path": {"type": "Exact", "value": "/v1/models"},
        "headers": [
            {"name": "X-Gateway-Model-Name", "value": "m"},
            {"name": "x-gateway-model-name", "value": "ignored, the first counts"},
            {"name": "X-User", "type": "RegularExpression", "value": "a.*"},
        ],
        "queryParams": [{"name": "Q", "value": "1"}],
    }
    found = translate(
        snapshot(gateway(), route("r", rule(to_service("w"), matches=[match])), service("w"))
    )
    assert routes_of(found)[0].match == Match(
        path="/v1/models",
        exact=True,
        headers=(ValueMatch("x-gateway-model-name", "m"), ValueMatch("x-user", "a.*", regex=True)),
        query=(ValueMatch("Q", "1"),),
    )


FULL = {"type": "ReplaceFullPath", "replaceFullPath": "/v2"}
MIRROR = {"type": "RequestMirror", "requestMirror": {"backendRef": {"name": "w", "port": 80}}}


def redirect(**fields: Any) -> dict[str, Any]:
    return {"type": "RequestRedirect", "requestRedirect": {"hostname": "h", **fields}}


@pytest.mark.parametrize(
    "fields",
    [
        {"matches": [{"path": {"type": "RegularExpression", "value": "/.*"}}]},
        {"matches": [{"headers": [{"name": "a", "type": "RegularExpression", "value": "("}]}]},
        {"filters": [{"type": "CORS", "cors": {}}]},
        {"filters": [{"type": "ExtensionRef", "extensionRef": {}}]},
        {"filters": [redirect(port=8443)]},
        {"filters": [redirect(statusCode=308)]},
        {"filters": [{"type": "URLRewrite", "urlRewrite": {"path": FULL}}]},
        {"filters": [MIRROR, MIRROR]},
        {"matches": [{"method": "GET"}]},
        {"timeouts": {"request": "10s"}},
    ],
)
def test_what_gke_does_not_have_makes_a_route_not_accepted(fields):
    found = translate(snapshot(gateway(), route("r", rule(to_pool("m"), **fields)), *model("m")))
    assert conditions(found, "HTTPRoute", "r")["Accepted"] == "!UnsupportedValue"
    assert found.gateways[GW].listeners[0].hosts == ()


def test_a_backend_has_no_filters_of_its_own():
    change = {"remove": ["x-a"]}
    own = [{"type": "RequestHeaderModifier", "requestHeaderModifier": change}]
    found = translate(
        snapshot(gateway(), route("r", rule(to_service("w", filters=own))), service("w"))
    )
    assert conditions(found, "HTTPRoute", "r")["Accepted"] == "!UnsupportedValue"


@pytest.mark.parametrize("kind", ["RequestHeaderModifier", "ResponseHeaderModifier"])
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"remove": ["Host"]}, "got host"),
        ({"remove": ["authority"]}, "got authority"),
        ({"set": [{"name": "X-User-IP", "value": "1"}]}, "got x-user-ip"),
        ({"add": [{"name": "x-goog-meta", "value": "1"}]}, "got x-goog-meta"),
        ({"remove": ["x-google-any"]}, "got x-google-any"),
        ({"remove": ["x-gfe-any"]}, "got x-gfe-any"),
        ({"remove": ["X-Amz-Date"]}, "got x-amz-date"),
        ({"remove": ["server", "Server"]}, "must be each header once, got server twice"),
    ],
)
def test_a_filter_on_a_header_that_load_balancers_reserve_makes_a_route_not_accepted(
    kind: str, change: dict[str, Any], reason: str
):
    filters = [{"type": kind, f"{kind[0].lower()}{kind[1:]}": change}]
    made = rule(to_service("w"), filters=filters)
    found = translate(snapshot(gateway(), route("r", made), service("w")))
    (status,) = [each.status for each in found.statuses if each.kind == "HTTPRoute"]
    (accepted,) = [c for c in status["parents"][0]["conditions"] if c["type"] == "Accepted"]
    assert (accepted["status"], accepted["reason"]) == ("False", "UnsupportedValue")
    assert accepted["message"].endswith(reason)
    assert found.gateways[GW].listeners[0].hosts == ()


def test_routes_go_by_the_precedence_of_the_gateway_api():
    def matched(name, **match):
        return route(name, rule(to_service("w"), matches=[match]))

    def header(name):
        return {"name": name, "value": "1"}

    found = translate(
        snapshot(
            gateway(),
            service("w"),
            matched("root"),
            matched("exact", path={"type": "Exact", "value": "/a"}),
            matched("long", path={"value": "/aaaa"}),
            matched("one-header", headers=[header("a")]),
            matched("two-headers", headers=[header("a"), header("b")]),
            matched("query", queryParams=[header("q")]),
        )
    )
    order = [r.name.split("/")[1] for r in routes_of(found)]
    assert order == ["exact", "long", "two-headers", "one-header", "query", "root"]


def test_among_equal_routes_the_oldest_goes_first_then_the_alphabet():
    old = {"creationTimestamp": "2026-01-01T00:00:00Z"}
    new = {"creationTimestamp": "2026-02-01T00:00:00Z"}
    found = translate(
        snapshot(
            gateway(),
            service("w"),
            route("a-new", rule(to_service("w")), metadata=new),
            route("z-old", rule(to_service("w")), metadata=old),
            route("b-new", rule(to_service("w")), metadata=new),
        )
    )
    assert [r.name.split("/")[1] for r in routes_of(found)] == ["z-old", "a-new", "b-new"]


def test_a_hundred_adapters_over_two_rules_are_a_hundred_routes():
    def adapters(start, count):
        names = [{"name": "X-Gateway-Model-Name", "value": f"a{n}"} for n in range(start, count)]
        return rule(to_pool("m"), matches=[{"headers": [name]} for name in names])

    found = translate(
        snapshot(gateway(), route("r", adapters(0, 64), adapters(64, 100)), *model("m"))
    )
    assert len(routes_of(found)) == 100
    assert len(found.gateways[GW].backends) == 1
