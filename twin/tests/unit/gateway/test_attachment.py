"""Which routes a listener takes."""

from typing import Any

import pytest

from twin.cluster.gateway.translation.attachment import common_hosts, covers
from twin.cluster.gateway.translation.translate import translate
from twin.tests.unit.gateway.builders import (
    conditions,
    gateway,
    route,
    rule,
    service,
    snapshot,
    to_service,
)

GW = ("ns", "gw")


def listener(name="http", port=8080, **fields):
    return {"name": name, "protocol": "HTTP", "port": port, **fields}


def namespace(name, **labels):
    return {"kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def outcome(listeners, *extra, **spec):
    home = spec.pop("namespace", "ns")
    found = translate(
        snapshot(
            gateway(listeners=listeners),
            route("r", rule(to_service("w")), namespace=home, **spec),
            service("w", namespace=home),
            *extra,
        )
    )
    return found, conditions(found, "HTTPRoute", "r", home)["Accepted"]


def attached(found):
    return [name.name for name in found.gateways[GW].listeners if name.hosts]


def test_a_route_attaches_to_every_listener_it_does_not_choose_between():
    found, reason = outcome([listener("a", 1), listener("b", 2)])
    assert reason == "Accepted"
    assert attached(found) == ["a", "b"]


def test_a_route_may_choose_a_listener_by_name_not_by_port():
    parent = {"name": "gw", "namespace": "ns"}
    both = [listener("a", 1), listener("b", 2)]
    found, _ = outcome(both, parentRefs=[{**parent, "sectionName": "b"}])
    assert attached(found) == ["b"]
    found, reason = outcome(both, parentRefs=[{**parent, "port": 2}])
    assert (attached(found), reason) == ([], "!UnsupportedValue")


def test_a_listener_that_is_not_there_is_said():
    parents = [{"name": "gw", "namespace": "ns", "sectionName": "z"}]
    _, reason = outcome([listener()], parentRefs=parents)
    assert reason == "!NoMatchingParent"


@pytest.mark.parametrize(
    ("allowed", "reason"),
    [
        (None, "!NotAllowedByListeners"),
        ({"from": "Same"}, "!NotAllowedByListeners"),
        ({"from": "None"}, "!NotAllowedByListeners"),
        ({"from": "All"}, "Accepted"),
        ({"from": "Selector", "selector": {"matchLabels": {"team": "a"}}}, "Accepted"),
        (
            {"from": "Selector", "selector": {"matchLabels": {"team": "b"}}},
            "!NotAllowedByListeners",
        ),
        (
            {
                "from": "Selector",
                "selector": {
                    "matchExpressions": [
                        {"key": "team", "operator": "In", "values": ["a", "b"]},
                        {"key": "team", "operator": "NotIn", "values": ["c"]},
                        {"key": "team", "operator": "Exists"},
                        {"key": "secret", "operator": "DoesNotExist"},
                    ]
                },
            },
            "Accepted",
        ),
    ],
)
def test_listeners_say_which_namespaces_routes_may_come_from(allowed, reason):
    fields: dict[str, Any] = {"allowedRoutes": {"namespaces": allowed}} if allowed else {}
    found = outcome([listener(**fields)], namespace("other", team="a"), namespace="other")
    assert found[1] == reason


def test_listeners_say_which_kinds_they_take():
    kinds = {"kinds": [{"group": "gateway.networking.k8s.io", "kind": "GRPCRoute"}]}
    assert outcome([listener(allowedRoutes=kinds)])[1] == "!NotAllowedByListeners"


def test_a_route_serves_the_host_names_it_shares_with_its_listener():
    found, _ = outcome(
        [listener(hostname="*.example.com")], hostnames=["a.example.com", "b.example.org"]
    )
    assert [h for h, _ in found.gateways[GW].listeners[0].hosts] == ["a.example.com"]


def test_a_route_without_a_common_host_name_is_not_accepted():
    _, reason = outcome([listener(hostname="a.example.com")], hostnames=["b.example.com"])
    assert reason == "!NoMatchingListenerHostname"


@pytest.mark.parametrize(
    ("pattern", "host", "expected"),
    [
        ("", "a.b", True),
        ("a.b", "a.b", True),
        ("*.b", "a.b", True),
        ("*.b", "x.a.b", True),
        ("*.b", "b", False),
        ("*.b", ".b", False),
        ("a.b", "b", False),
    ],
)
def test_a_wildcard_covers_names_below_it_only(pattern, host, expected):
    assert covers(pattern, host) is expected


def test_a_wildcard_route_on_a_plain_listener_serves_the_listeners_name():
    assert common_hosts("a.b", ["*.b"]) == ("a.b",)
    assert common_hosts("", []) == ("*",)
