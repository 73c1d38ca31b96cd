"""Policies of backends, with their defaults."""

from collections.abc import Iterable
from dataclasses import replace

from twin.cluster.gateway.translation.conditions import Condition, StatusUpdate
from twin.cluster.gateway.translation.fleet import IMPORT_GROUP, IMPORT_KIND
from twin.cluster.gateway.translation.model import HealthCheck
from twin.cluster.gateway.translation.objects import (
    GATEWAY_GROUP,
    POLICIES,
    POOL_GROUP,
    JsonObject,
    Key,
    Snapshot,
    items,
    key_of,
    mapping,
)
from twin.providers.gcp.resources.security_policies import ArmorRule
from twin.world.rules import all_rules

_TARGET_KINDS = {
    ("", "Service"),
    (POOL_GROUP, "InferencePool"),
    (IMPORT_GROUP, IMPORT_KIND),
}
_OF_GATEWAYS = "GCPGatewayPolicy"
_GATEWAY = {(GATEWAY_GROUP, "Gateway")}
_CHECK_FIELDS = {
    "HTTP": "httpHealthCheck",
    "HTTPS": "httpsHealthCheck",
    "HTTP2": "http2HealthCheck",
    "GRPC": "grpcHealthCheck",
    "TCP": "tcpHealthCheck",
}
_NOT_ENFORCED = {
    "iap": "iap",
    "maxRatePerEndpoint": "maxRatePerEndpoint",
    "customMetrics": "customMetrics",
}
"""Words for the fields that the twin does not enforce."""


def default_health_check() -> HealthCheck:
    """Return the health check of a backend without a HealthCheckPolicy."""
    rules = all_rules()
    return HealthCheck(
        kind="HTTP",
        path=str(rules["gateway.health.path"].value),
        interval_seconds=int(rules["gateway.health.interval"].value),
        timeout_seconds=int(rules["gateway.health.timeout"].value),
        healthy_threshold=int(rules["gateway.health.healthy_threshold"].value),
        unhealthy_threshold=int(rules["gateway.health.unhealthy_threshold"].value),
    )


def _target_of(policy: JsonObject) -> tuple[str, str, str]:
    ref: JsonObject = policy["spec"]["targetRef"]
    return ref.get("group", ""), ref["kind"], ref["name"]


def reached_from_afar(policies: Iterable[JsonObject]) -> set[Key]:
    """Return the Gateways with global access through a GCPGatewayPolicy."""
    return {
        (policy["metadata"]["namespace"], _target_of(policy)[2])
        for policy in policies
        if mapping(policy["spec"], "default").get("allowGlobalAccess") is True
    }


def policy_for(
    snapshot: Snapshot, policy_kind: str, namespace: str, group: str, kind: str, name: str
) -> JsonObject | None:
    """Return the effective policy of a target: the oldest in its namespace that names it."""
    return snapshot.policies.get((policy_kind, namespace, group, kind, name))


def health_check_of(
    snapshot: Snapshot, namespace: str, group: str, kind: str, name: str
) -> HealthCheck:
    """Return the health check of a Service or an InferencePool."""
    found = set_health_check(snapshot, namespace, group, kind, name)
    return default_health_check() if found is None else found


def set_health_check(
    snapshot: Snapshot, namespace: str, group: str, kind: str, name: str
) -> HealthCheck | None:
    """Return the health check that a HealthCheckPolicy sets; None without a policy."""
    policy = policy_for(snapshot, "HealthCheckPolicy", namespace, group, kind, name)
    if policy is None:
        return None
    check = default_health_check()
    seconds = int(all_rules()["gateway.health.policy-times"].value)
    spec: JsonObject = mapping(policy["spec"], "default")
    config: JsonObject = mapping(spec, "config")
    probe_kind = str(config.get("type", "HTTP"))
    probe: JsonObject = config.get(_CHECK_FIELDS[probe_kind]) or {}
    fixed = probe.get("portSpecification", "USE_FIXED_PORT") == "USE_FIXED_PORT"
    return replace(
        check,
        kind=probe_kind,
        path=probe.get("requestPath", check.path),
        host=probe.get("host", ""),
        port=probe.get("port") if fixed else None,
        grpc_service=probe.get("grpcServiceName", ""),
        interval_seconds=spec.get("checkIntervalSec", seconds),
        timeout_seconds=spec.get("timeoutSec", seconds),
        healthy_threshold=spec.get("healthyThreshold", check.healthy_threshold),
        unhealthy_threshold=spec.get("unhealthyThreshold", check.unhealthy_threshold),
    )


def timeout_of(snapshot: Snapshot, namespace: str, group: str, kind: str, name: str) -> int:
    """Return the request timeout of a Service or an InferencePool, in seconds."""
    policy = policy_for(snapshot, "GCPBackendPolicy", namespace, group, kind, name)
    spec: JsonObject = mapping(policy["spec"], "default") if policy else {}
    return int(spec.get("timeoutSec", all_rules()["gateway.timeout.default"].value))


def armor_of(
    snapshot: Snapshot, namespace: str, group: str, kind: str, name: str
) -> tuple[ArmorRule, ...]:
    """Return the rules of the Cloud Armor policy of a Service or an InferencePool."""
    policy = policy_for(snapshot, "GCPBackendPolicy", namespace, group, kind, name)
    armor = mapping(policy["spec"], "default").get("securityPolicy") if policy else None
    return () if armor is None else snapshot.armor_named(str(armor))


def policy_statuses(
    snapshot: Snapshot, attached: set[tuple[str, str, str, str]]
) -> list[StatusUpdate]:
    """Return the status of every HealthCheckPolicy, GCPBackendPolicy and GCPGatewayPolicy.

    Args:
        snapshot: the cluster's objects.
        attached: (group, kind, namespace, name) of the gateways and their backends.
    """
    updates: list[StatusUpdate] = []
    for policy_kind in POLICIES:
        for policy in snapshot.all(policy_kind):
            condition = _attachment(snapshot, policy_kind, policy, attached)
            status = {"conditions": [condition.as_json()]}
            updates.append(StatusUpdate(policy_kind, key_of(policy), status))
    return updates


def _attachment(
    snapshot: Snapshot,
    policy_kind: str,
    policy: JsonObject,
    attached: set[tuple[str, str, str, str]],
) -> Condition:
    namespace = policy["metadata"]["namespace"]
    group, kind, name = _target_of(policy)
    what = f"{kind} {namespace}/{name}"
    is_of_gateway = policy_kind == _OF_GATEWAYS
    if (group, kind) not in (_GATEWAY if is_of_gateway else _TARGET_KINDS):
        kinds = "a Gateway" if is_of_gateway else "a Service, an InferencePool or an imported one"
        message = f"targetRef: must be {kinds}, got {group}/{kind}"
        return Condition("Attached", False, "Invalid", message)
    if snapshot.get(kind, namespace, name) is None:
        return Condition("Attached", False, "TargetNotFound", f"{what} does not exist")
    first = policy_for(snapshot, policy_kind, namespace, group, kind, name)
    if first is not None and key_of(first) != key_of(policy):
        message = f"{what} has the older {policy_kind} {first['metadata']['name']} already"
        return Condition("Attached", False, "Conflicted", message)
    if (group, kind, namespace, name) not in attached:
        says = f"no class of GKE serves {what}" if is_of_gateway else f"no Gateway routes to {what}"
        return Condition("Attached", False, "Pending", says)
    given = mapping(policy["spec"], "default")
    enforced = {"customMetrics"} if kind == IMPORT_KIND else set[str]()
    ignored = [
        words for key, words in _NOT_ENFORCED.items() if key in given and key not in enforced
    ]
    note = f"; the twin does not enforce {', '.join(ignored)}" if ignored else ""
    return Condition("Attached", True, "Attached", f"attached to {what}{note}")


def target_of(snapshot: Snapshot, namespace: str, name: str) -> tuple[str, int] | None:
    """Return metric and target percentage of the balance of an imported pool, if it has any."""
    policy = policy_for(snapshot, "GCPBackendPolicy", namespace, IMPORT_GROUP, IMPORT_KIND, name)
    given = mapping(policy["spec"], "default") if policy else {}
    if given.get("balancingMode") != "CUSTOM_METRICS":
        return None
    for metric in items(given, "customMetrics"):
        if not metric["dryRun"]:
            exported = str(metric["name"]).removeprefix("gke.named_metrics.")
            return exported, int(metric.get("maxUtilizationPercent", 80))
    return None
