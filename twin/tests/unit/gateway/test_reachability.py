"""Traffic of load balancers that the VPC's firewall or NetworkPolicies drop."""

from dataclasses import replace
from ipaddress import IPv4Network
from typing import Any

import pytest

from gke_inference.catalogue.load_balancing import BACKEND_PORTS, HEALTH_CHECK_RANGES
from twin.cluster.gateway.translation.translate import translate
from twin.cluster.gateway.translation.vpc import (
    ClusterNetwork,
    Direction,
    FirewallRule,
    firewall_rules,
)
from twin.tests.unit.gateway.builders import (
    POOL_API,
    body_router,
    conditions,
    gateway,
    model,
    obj,
    policy,
    route,
    rule,
    snapshot,
    to_pool,
)

PROXIES = "10.2.0.0/23"
HEALTHY = "networking.gke.io/GatewayHealthy"
TARGET = {"group": POOL_API, "kind": "InferencePool", "name": "m"}


def rules_of(**wall: Any) -> tuple[FirewallRule, ...]:
    """Return what a firewall decides about ingress."""
    return tuple(firewall_rules(wall, Direction.INGRESS))


def network(*ports: str, sources: tuple[str, ...] = (PROXIES, *HEALTH_CHECK_RANGES), **more: Any):
    """A Shared VPC with a rule that opens ports, if there are any."""
    allowed = [{"protocol": "tcp", "ports": list(ports)}] if ports else []
    rules = rules_of(allows=allowed, sourceRanges=sources)
    fields: dict[str, Any] = {"is_shared": True, "enforces_policies": False, **more}
    return ClusterNetwork("projects/host/global/networks/net", rules, (PROXIES,), **fields)


def check(port: int) -> dict[str, Any]:
    config = {"type": "HTTP", "httpHealthCheck": {"requestPath": "/health", "port": port}}
    return policy("HealthCheckPolicy", "m", TARGET, config=config)


def served(where: ClusterNetwork | None, *objects: dict[str, Any]) -> tuple[Any, str]:
    """Return the backend of a model, and what the condition of its Gateway says."""
    model_route = route("r", rule(to_pool("m")))
    found = translate(snapshot(gateway(), model_route, *model("m"), *objects, network=where))
    status = next(each.status for each in found.statuses if each.kind == "Gateway")
    said = [each["message"] for each in status["conditions"] if each["type"] == HEALTHY]
    return found.gateways["ns", "gw"].backends[0], "".join(said)


def test_a_rule_for_all_ports_of_the_platform_lets_every_flow_pass():
    backend, said = served(network(*BACKEND_PORTS))
    assert (len(backend.endpoints), len(backend.picker.endpoints), said) == (2, 1, "")


def test_a_network_that_the_cloud_does_not_have_is_not_evaluated():
    backend, _ = served(None)
    assert len(backend.endpoints) == 2


def test_a_port_that_no_rule_of_a_shared_network_opens_has_no_endpoints():
    backend, said = served(network("9002-9005"))
    assert (backend.endpoints, len(backend.picker.endpoints)) == ((), 1)
    assert said == "; ".join(
        f"{what} from {source} to port 8000: no firewall rule of projects/host/global/networks/net "
        "allows tcp:8000 from this range"
        for what, source in [
            ("requests of proxies", PROXIES),
            *(("health checks", each) for each in HEALTH_CHECK_RANGES),
        ]
    )


def test_a_gateway_says_whether_its_network_lets_its_traffic_pass():
    for ports, reason in ((BACKEND_PORTS, "Healthy"), (("443",), "!NetworkDropsTraffic")):
        model_route = route("r", rule(to_pool("m")))
        objects = (gateway(), model_route, *model("m"))
        found = translate(snapshot(*objects, network=network(*ports)))
        assert conditions(found, "Gateway", "gw")[HEALTHY] == reason


def test_gke_opens_the_serving_ports_of_its_own_network_but_not_those_of_health_checks_alone():
    own = network(is_shared=False)
    assert len(served(own)[0].endpoints) == 2
    backend, said = served(own, check(9011))
    assert backend.endpoints == ()
    assert [text.partition(":")[0] for text in said.split("; ")] == [
        f"health checks from {each} to port 9011" for each in HEALTH_CHECK_RANGES
    ]
    assert len(served(network("9011", is_shared=False), check(9011))[0].endpoints) == 2


def test_a_rule_for_a_part_of_the_proxies_is_not_enough():
    backend, said = served(network("0-65535", sources=("10.2.0.0/24", *HEALTH_CHECK_RANGES)))
    assert backend.endpoints == ()
    assert said.startswith(f"requests of proxies from {PROXIES} to port 8000: no firewall rule")


@pytest.mark.parametrize(("priority", "count"), [(999, 0), (1000, 0), (1001, 2)])
def test_a_denial_counts_before_a_rule_of_its_priority(priority: int, count: int):
    shut = {"denies": [{"protocol": "all"}], "sourceRanges": ["10.2.1.0/24"]}
    denied = rules_of(priority=priority, **shut)
    opened = network("0-65535")
    assert len(served(replace(opened, rules=(*opened.rules, *denied)))[0].endpoints) == count


@pytest.mark.parametrize(("machines", "count"), [("10.0.0.0/20", 2), ("10.9.0.0/16", 0)])
def test_a_denial_for_other_machines_does_not_count_for_pods(machines: str, count: int):
    shut = rules_of(denies=[{"protocol": "all"}], destinationRanges=[machines])
    opened = network("0-65535", pods=IPv4Network("10.8.0.0/14"))
    assert len(served(replace(opened, rules=(*opened.rules, *shut)))[0].endpoints) == count


def test_a_program_whose_port_is_shut_fails_every_request():
    shut = network("8000", "9002")
    found = translate(
        snapshot(
            gateway(), route("r", rule(to_pool("m"))), *model("m"), *body_router(), network=shut
        )
    )
    (chain,) = found.gateways["ns", "gw"].routing_chains
    assert (chain.processors[0].endpoints, chain.processors[0].fail_open) == ((), False)


def allowing(*ingress: dict[str, Any], **spec: Any) -> dict[str, Any]:
    full = {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": list(ingress), **spec}
    return obj("NetworkPolicy", "allow", spec=full)


SOURCES = [{"ipBlock": {"cidr": each}} for each in (PROXIES, *HEALTH_CHECK_RANGES)]
ENGINES = {"podSelector": {"matchLabels": {"model": "m"}}}


@pytest.mark.parametrize(
    ("allowed", "count"),
    [
        (allowing(), 0),
        (allowing({}), 2),
        (allowing({"from": SOURCES, "ports": [{"port": 8000}]}), 2),
        (allowing({"from": SOURCES, "ports": [{"port": 7000, "endPort": 9000}]}), 2),
        (allowing({"from": SOURCES, "ports": [{"port": 8001}]}), 0),
        (allowing({"from": SOURCES, "ports": [{"port": 8000, "protocol": "UDP"}]}), 0),
        (allowing({"from": SOURCES[1:], "ports": [{"port": 8000}]}), 0),
        (allowing({"from": [{"podSelector": {}}]}), 0),
        (allowing(podSelector={"matchLabels": {"model": "other"}}), 2),
        (allowing(policyTypes=["Egress"]), 2),
    ],
)
def test_a_policy_that_selects_engines_has_to_let_proxies_and_health_checks_in(allowed, count):
    enforced = network("0-65535", enforces_policies=True)
    assert len(served(enforced, allowed)[0].endpoints) == count
    assert len(served(network("0-65535"), allowed)[0].endpoints) == 2  # nobody enforces it


def test_a_missing_policy_is_named_with_the_flow_and_the_pods():
    enforced = network("0-65535", enforces_policies=True)
    shut = allowing({"from": SOURCES[1:], "ports": [{"port": 8000}]}, **ENGINES)
    assert served(enforced, shut)[1] == "; ".join(
        f"requests of proxies from {PROXIES} to port 8000: no NetworkPolicy of ns allows it to "
        f"pod m-{at}"
        for at in range(2)
    )
