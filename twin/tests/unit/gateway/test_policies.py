"""Time-outs and health checks: from policies, and without them."""

from typing import Any

import pytest

from twin.cluster.gateway.envoy.clusters import clusters_of, endpoints_of
from twin.cluster.gateway.translation.model import HealthCheck
from twin.cluster.gateway.translation.translate import translate
from twin.providers.gcp.checks.armor_language import HasHeader
from twin.providers.gcp.resources.security_policies import Answer, ArmorRule
from twin.tests.unit.gateway.builders import (
    GATEWAY_API,
    POOL_API,
    body_router,
    conditions,
    gateway,
    model,
    policy,
    route,
    rule,
    service,
    snapshot,
    to_pool,
    to_service,
)

TARGET = {"group": POOL_API, "kind": "InferencePool", "name": "m"}


def pool_with(*policies) -> Any:
    found = translate(snapshot(gateway(), route("r", rule(to_pool("m"))), *model("m"), *policies))
    return found, found.gateways["ns", "gw"].backends[0]


def test_a_backend_without_policies_has_googles_defaults():
    _, backend = pool_with()
    assert backend.timeout_seconds == 30
    assert backend.health == HealthCheck("HTTP", "/", "", None, 15, 15, 1, 2)


def test_a_backend_policy_sets_the_time_out_of_routes_to_it():
    found, backend = pool_with(
        policy(
            "GCPBackendPolicy",
            "p",
            TARGET,
            timeoutSec=300,
            connectionDraining={"drainingTimeoutSec": 60},
        )
    )
    assert backend.timeout_seconds == 300
    assert found.gateways["ns", "gw"].listeners[0].hosts[0][1][0].timeout_seconds == 300
    assert conditions(found, "GCPBackendPolicy", "p") == {"Attached": "Attached"}


def test_a_health_check_policy_sets_path_port_and_times():
    check = {"type": "HTTP", "httpHealthCheck": {"requestPath": "/health", "port": 8000}}
    found, backend = pool_with(
        policy("HealthCheckPolicy", "p", TARGET, checkIntervalSec=2, timeoutSec=1, config=check)
    )
    assert backend.health == HealthCheck("HTTP", "/health", "", 8000, 2, 1, 1, 2)
    assert conditions(found, "HealthCheckPolicy", "p") == {"Attached": "Attached"}


def test_the_health_check_of_an_extensions_service_decides_how_its_program_is_probed(tmp_path):
    target = {"group": "", "kind": "Service", "name": "bbr"}
    check = {"type": "GRPC", "grpcHealthCheck": {"port": 9005}}
    objects = [gateway(), *body_router(), policy("HealthCheckPolicy", "p", target, config=check)]
    model = translate(snapshot(*objects)).gateways[("ns", "gw")]
    (probe,) = clusters_of(model, tmp_path)["extension/ns/bbr/chain/bbr"]["health_checks"]
    assert probe["grpc_health_check"] == {"service_name": ""}
    # a policy without times has those of Google, not those of a backend without a policy
    assert (probe["interval"], probe["timeout"], probe["unhealthy_threshold"]) == ("5s", "5s", 2)
    assert probe["transport_socket_match_criteria"] == {"probe": True}, "without TLS"
    (group,) = endpoints_of(model)["extension/ns/bbr/chain/bbr"]["endpoints"]
    (found,) = group["lb_endpoints"]
    assert found["endpoint"]["health_check_config"] == {"port_value": 9005}


def test_a_picker_is_probed_as_seldom_as_other_backends_unless_its_service_has_a_policy():
    _, backend = pool_with()
    assert backend.picker.health == HealthCheck("TCP", "/", "", None, 15, 15, 1, 2)
    [name] = [obj["metadata"]["name"] for obj in model("m") if obj["kind"] == "Service"]
    target = {"group": "", "kind": "Service", "name": name}
    connects = {"type": "TCP", "tcpHealthCheck": {"portSpecification": "USE_SERVING_PORT"}}
    check = policy("HealthCheckPolicy", "p", target, checkIntervalSec=1, config=connects)
    _, backend = pool_with(check)
    assert (backend.picker.health.kind, backend.picker.health.interval_seconds) == ("TCP", 1)


def test_the_probe_of_a_moved_program_goes_where_its_health_port_moved():
    target = {"group": "", "kind": "Service", "name": "bbr"}
    check = {
        "type": "GRPC",
        "grpcHealthCheck": {"port": 9005, "portSpecification": "USE_FIXED_PORT"},
    }
    objects = [gateway(), *body_router(), policy("HealthCheckPolicy", "p", target, config=check)]
    moved = snapshot(*objects, port_of=lambda _, port: ("127.0.0.1", port + 30000))
    (group,) = endpoints_of(translate(moved).gateways[("ns", "gw")])["extension/ns/bbr/chain/bbr"][
        "endpoints"
    ]
    (found,) = group["lb_endpoints"]
    assert found["endpoint"]["address"]["socket_address"]["port_value"] == 39004
    assert found["endpoint"]["health_check_config"] == {"port_value": 39005}


def test_a_check_of_the_serving_port_needs_no_port():
    check = {
        "type": "GRPC",
        "grpcHealthCheck": {"portSpecification": "USE_SERVING_PORT", "port": 1},
    }
    _, backend = pool_with(policy("HealthCheckPolicy", "p", TARGET, config=check))
    assert (backend.health.kind, backend.health.port) == ("GRPC", None)


def test_policies_of_other_namespaces_do_not_count():
    foreign = policy("GCPBackendPolicy", "p", TARGET, timeoutSec=300)
    foreign["metadata"]["namespace"] = "elsewhere"
    found, backend = pool_with(foreign)
    assert backend.timeout_seconds == 30
    reasons = conditions(found, "GCPBackendPolicy", "p", "elsewhere")
    assert reasons == {"Attached": "!TargetNotFound"}


def test_of_two_policies_the_older_holds_and_the_other_is_told():
    old = {"creationTimestamp": "2026-01-01T00:00:00Z"}
    new = {"creationTimestamp": "2026-02-01T00:00:00Z"}
    found, backend = pool_with(
        policy("GCPBackendPolicy", "a", TARGET, timeoutSec=1, metadata=new),
        policy("GCPBackendPolicy", "b", TARGET, timeoutSec=2, metadata=old),
    )
    assert backend.timeout_seconds == 2
    assert conditions(found, "GCPBackendPolicy", "a") == {"Attached": "!Conflicted"}


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ({"group": "", "kind": "Service", "name": "idle"}, "!Pending"),
        ({"group": "apps", "kind": "Deployment", "name": "d"}, "!Invalid"),
    ],
)
def test_a_policy_that_no_gateway_needs_says_so(target, reason):
    found = translate(snapshot(gateway(), service("idle"), policy("GCPBackendPolicy", "p", target)))
    assert conditions(found, "GCPBackendPolicy", "p") == {"Attached": reason}


def test_a_split_over_backends_waits_as_long_as_the_slowest_of_them():
    found = translate(
        snapshot(
            gateway(),
            route("r", rule(to_pool("m"), to_service("w"))),
            *model("m"),
            service("w"),
            policy("GCPBackendPolicy", "p", TARGET, timeoutSec=300),
        )
    )
    assert found.gateways["ns", "gw"].listeners[0].hosts[0][1][0].timeout_seconds == 300


def test_what_the_twin_does_not_enforce_is_in_the_message():
    enforced, ignored = {"securityPolicy": "armor"}, {"iap": {"enabled": True}}
    found, _ = pool_with(policy("GCPBackendPolicy", "p", TARGET, **enforced, **ignored))
    update = next(u for u in found.statuses if u.kind == "GCPBackendPolicy")
    assert update.status["conditions"][0]["message"].endswith("; the twin does not enforce iap")


def test_a_backend_has_the_rules_of_the_cloud_armor_policy_of_its_region():
    rules = (ArmorRule(1, HasHeader("x-forged"), Answer(403)),)
    named = {"armor": rules}
    objects = [gateway(), route("r", rule(to_pool("m"), to_service("w"))), *model("m")]
    armed = policy("GCPBackendPolicy", "p", TARGET, securityPolicy="armor")
    found = translate(
        snapshot(*objects, service("w"), armed, armor_named=lambda name: named.get(name, ()))
    )
    backends = {each.name: each.armor for each in found.gateways["ns", "gw"].backends}
    assert backends == {"pool/ns/m": rules, "service/ns/w/80": ()}
    (backend,) = pool_with(armed)[0].gateways["ns", "gw"].backends
    assert backend.armor == (), "there is no such policy"


def test_the_service_of_a_routing_extension_may_have_a_health_check():
    target = {"group": "", "kind": "Service", "name": "bbr"}
    found = translate(snapshot(gateway(), *body_router(), policy("HealthCheckPolicy", "p", target)))
    assert conditions(found, "HealthCheckPolicy", "p") == {"Attached": "Attached"}


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ({"group": GATEWAY_API, "kind": "Gateway", "name": "gw"}, "Attached"),
        ({"group": GATEWAY_API, "kind": "Gateway", "name": "later"}, "!TargetNotFound"),
        (TARGET, "!Invalid"),
    ],
)
def test_a_gateway_policy_reports_whether_its_gateway_exists(target, reason):
    found, _ = pool_with(policy("GCPGatewayPolicy", "p", target, allowGlobalAccess=True))
    assert conditions(found, "GCPGatewayPolicy", "p") == {"Attached": reason}


def test_the_policy_of_a_gateway_is_attached_before_the_gateway_is_programmed():
    target = {"group": GATEWAY_API, "kind": "Gateway", "name": "gw"}
    found, _ = pool_with(policy("GCPGatewayPolicy", "p", target, allowGlobalAccess=True))
    kinds = [each.kind for each in found.statuses]
    assert kinds.index("GCPGatewayPolicy") < kinds.index("Gateway")
