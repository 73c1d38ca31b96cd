"""Rules that the real provider implements in code, not in its schema (`custom_rules` of the data).

Each function checks one resource type like a plan or a create, with inputs in Pulumi names.
"""

from collections.abc import Callable, Iterator
from typing import Any

from twin.providers.gcp.checks.validators import duration_seconds, is_go_duration
from twin.providers.gcp.schema import Resource
from twin.wire.property_values import (
    Failure,
    Json,
    as_list,
    as_object,
    get_path,
    is_unknown,
    last_segment,
    show,
)

_MANAGED_ONLY = (
    "capacityScaler",
    "maxConnections",
    "maxConnectionsPerInstance",
    "maxConnectionsPerEndpoint",
    "maxRate",
    "maxRatePerInstance",
    "maxRatePerEndpoint",
    "maxUtilization",
)
_SCRATCH_GB = (375, 3000, 3500, 7000, 14000)
_NVME_ONLY_GB = 3000
_BUILD_TIMEOUT = "600s"
_HEALTH_PROTOCOLS = ("http", "https", "http2", "tcp", "ssl", "grpc")


def problems(known: Resource, inputs: Json, old: Json | None) -> Iterator[Failure]:
    """Yield a failure for each broken rule of the resource's type.

    Args:
        known: the resource type.
        inputs: new inputs.
        old: previous inputs; empty for a new resource, None if they are not known.
    """
    check = _CHECKS.get(known.kind)
    if check is not None:
        yield from check(inputs)
    if known.kind == "container/cluster" and not old:
        yield from _new_cluster(inputs)
    if known.kind == "compute/routerNat" and old is not None:
        yield from _drained(inputs, old)


def _objects(inputs: Json, key: str) -> list[tuple[str, Json]]:
    found = [(f"{key}[{i}]", as_object(v)) for i, v in enumerate(as_list(inputs.get(key)) or [])]
    return [(where, value) for where, value in found if value is not None]


def _cluster(inputs: Json) -> Iterator[Failure]:
    locations = as_list(inputs.get("nodeLocations")) or []
    if inputs.get("location") in locations and not is_unknown(inputs.get("location")):
        yield Failure("nodeLocations", "must not contain the cluster's own location")
    where = "clusterAutoscaling.autoProvisioningDefaults.upgradeSettings"
    yield from _surge(where, get_path(inputs, where))
    if inputs.get("skipNodePoolRefresh") is True and inputs.get("nodePools"):
        yield Failure("skipNodePoolRefresh", "cannot be true together with inline nodePools")
    if inputs.get("enableAutopilot") is not True and not inputs.get("nodePools"):
        has_count = inputs.get("initialNodeCount") is not None
        if not has_count:
            yield Failure("initialNodeCount", "is required when nodePools are not given")


def _new_cluster(inputs: Json) -> Iterator[Failure]:
    node_version, master = inputs.get("nodeVersion"), inputs.get("minMasterVersion")
    if node_version and inputs.get("removeDefaultNodePool") is True:
        yield Failure("nodeVersion", "cannot be given while removeDefaultNodePool is true")
    if (
        isinstance(node_version, str)
        and isinstance(master, str)
        and not (is_unknown(node_version) or is_unknown(master))
        and node_version.partition("-")[0] != master.partition("-")[0]
    ):
        yield Failure("nodeVersion", f"must be the version of minMasterVersion ({master})")


def _surge(where: str, value: Any) -> Iterator[Failure]:
    settings = as_object(value) or {}
    strategy = settings.get("strategy") or "SURGE"
    if strategy != "SURGE" and not is_unknown(strategy):
        for key in ("maxSurge", "maxUnavailable"):
            if settings.get(key):
                yield Failure(f"{where}.{key}", f"needs strategy SURGE, got {strategy}")


def _node_pool(inputs: Json) -> Iterator[Failure]:
    if inputs.get("name") and inputs.get("namePrefix"):
        yield Failure("name", "cannot be given together with namePrefix")
    if inputs.get("initialNodeCount") and inputs.get("nodeCount"):
        yield Failure("initialNodeCount", "cannot be given together with nodeCount")
    settings = as_object(inputs.get("upgradeSettings")) or {}
    yield from _surge("upgradeSettings", settings)
    blue_green = as_object(settings.get("blueGreenSettings"))
    if blue_green is not None:
        where = "upgradeSettings.blueGreenSettings"
        if settings.get("strategy") != "BLUE_GREEN" and not is_unknown(settings.get("strategy")):
            yield Failure(where, "needs strategy BLUE_GREEN")
        policies = ("standardRolloutPolicy", "autoscaledRolloutPolicy")
        if all(blue_green.get(key) is not None for key in policies):
            yield Failure(
                where, "takes only one of standardRolloutPolicy and autoscaledRolloutPolicy"
            )


def _firewall(inputs: Json) -> Iterator[Failure]:
    if inputs.get("logConfig") is not None and inputs.get("enableLogging") is False:
        yield Failure("logConfig", "cannot be given while enableLogging is false")
    sources = ("sourceTags", "sourceRanges", "sourceServiceAccounts")
    may_be_egress = inputs.get("direction") == "EGRESS" or is_unknown(inputs.get("direction"))
    if not may_be_egress and all(not inputs.get(key) for key in sources):
        yield Failure(
            "sourceRanges",
            "one of sourceTags, sourceRanges and sourceServiceAccounts must be given, "
            "unless direction is EGRESS",
        )


def _health_check(inputs: Json) -> Iterator[Failure]:
    for protocol in _HEALTH_PROTOCOLS:
        where = f"{protocol}HealthCheck"
        check = as_object(inputs.get(where)) or {}
        mode = check.get("portSpecification")
        if mode == "USE_NAMED_PORT":
            if check.get("port"):
                yield Failure(f"{where}.port", "cannot be given with USE_NAMED_PORT")
            if not check.get("portName"):
                yield Failure(f"{where}.portName", "is required with USE_NAMED_PORT")
        elif mode == "USE_SERVING_PORT":
            for key in ("port", "portName"):
                if check.get(key):
                    yield Failure(f"{where}.{key}", "cannot be given with USE_SERVING_PORT")


def _instance_template(inputs: Json) -> Iterator[Failure]:
    for number, (where, disk) in enumerate(_objects(inputs, "disks")):
        if number and disk.get("boot") is True:
            yield Failure(f"{where}.boot", "can be true for the first disk only")
        is_scratch, is_local = disk.get("type") == "SCRATCH", disk.get("diskType") == "local-ssd"
        if is_scratch != is_local:
            yield Failure(f"{where}.type", "SCRATCH and diskType local-ssd need each other")
        size = disk.get("diskSizeGb")
        if is_scratch and isinstance(size, int):
            if size not in _SCRATCH_GB:
                yield Failure(f"{where}.diskSizeGb", f"must be one of {_SCRATCH_GB}, got {size}")
            elif size >= _NVME_ONLY_GB and disk.get("interface") != "NVME":
                yield Failure(f"{where}.interface", f"must be NVME for {size} GB")


def _region_backend_service(inputs: Json) -> Iterator[Failure]:
    scheme = inputs.get("loadBalancingScheme") or "INTERNAL"
    backends = _objects(inputs, "backends")
    if scheme in ("INTERNAL", "EXTERNAL"):
        for where, backend in backends:
            for key in _MANAGED_ONLY:
                if backend.get(key):
                    yield Failure(
                        f"{where}.{key}", f"cannot be given with loadBalancingScheme {scheme}"
                    )
    elif scheme != "INTERNAL_MANAGED" and not is_unknown(scheme) and backends:
        scalers = [backend.get("capacityScaler", 1) for _, backend in backends]
        if all(isinstance(item, int | float) and item == 0 for item in scalers):
            yield Failure("backends", "capacityScaler must be above 0 for one backend or more")


def _router(inputs: Json) -> Iterator[Failure]:
    bgp = as_object(inputs.get("bgp")) or {}
    if bgp.get("advertiseMode", "DEFAULT") == "DEFAULT":
        for key in ("advertisedGroups", "advertisedIpRanges"):
            if bgp.get(key):
                yield Failure(f"bgp.{key}", "needs advertiseMode CUSTOM")


def _router_nat(inputs: Json) -> Iterator[Failure]:
    kept = {_named(item) for item in as_list(inputs.get("natIps")) or []}
    for item in as_list(inputs.get("drainNatIps")) or []:
        if not is_unknown(item) and _named(item) in kept:
            yield Failure("drainNatIps", f"{item} is still in natIps")


def _drained(inputs: Json, old: Json) -> Iterator[Failure]:
    before = {_named(item) for item in as_list(old.get("drainNatIps")) or []}
    added = [
        item for item in as_list(inputs.get("drainNatIps")) or [] if _named(item) not in before
    ]
    if not old and added:
        yield Failure("drainNatIps", "cannot be given for a new RouterNat")
        return
    kept = {_named(item) for item in as_list(old.get("natIps")) or []}
    for item in added:
        if not is_unknown(item) and _named(item) not in kept:
            yield Failure("drainNatIps", f"{item} must have been in natIps before")


def _named(reference: Any) -> str:
    return last_segment(str(reference))


def _security_policy(inputs: Json) -> Iterator[Failure]:
    seen: dict[Any, str] = {}
    for where, rule in _objects(inputs, "rules"):
        priority = rule.get("priority")
        if priority is None or is_unknown(priority):
            continue
        if priority in seen:
            yield Failure(
                f"{where}.priority", f"{priority} is the priority of {seen[priority]} too"
            )
        seen[priority] = where


def _ssl_policy(inputs: Json) -> Iterator[Failure]:
    is_custom, features = inputs.get("profile") == "CUSTOM", inputs.get("customFeatures")
    if is_unknown(inputs.get("profile")):
        return
    if is_custom and not features:
        yield Failure("customFeatures", "is required with profile CUSTOM")
    if features and not is_custom:
        yield Failure("customFeatures", "needs profile CUSTOM")


def _trigger(inputs: Json) -> Iterator[Failure]:
    build = as_object(inputs.get("build")) or {}
    steps = [as_object(step) or {} for step in as_list(build.get("steps")) or []]
    limit = build.get("timeout", _BUILD_TIMEOUT)
    given = [("build.timeout", limit)]
    given += [
        (f"build.steps[{at}].timeout", step["timeout"])
        for at, step in enumerate(steps)
        if step.get("timeout")
    ]
    wrong = [
        Failure(where, f"must be a Go duration such as 600s or 1h30m, got {show(value)}")
        for where, value in given
        if value is not None and not is_unknown(value) and not is_go_duration(value)
    ]
    if wrong:
        yield from wrong
        return
    total = sum(duration_seconds(step.get("timeout") or "") for step in steps)
    if limit is not None and not is_unknown(limit) and total > duration_seconds(limit):
        yield Failure("build.timeout", f"must be the {total:g}s of its steps or more, got {limit}")


def _sink(inputs: Json) -> Iterator[Failure]:
    if inputs.get("bigqueryOptions") is not None and inputs.get("uniqueWriterIdentity") is False:
        yield Failure("bigqueryOptions", "needs uniqueWriterIdentity to be true")


def _channel(inputs: Json) -> Iterator[Failure]:
    renamed = {"authToken": "auth_token", "serviceKey": "service_key"}
    labels = as_object(inputs.get("labels")) or {}
    for key in as_object(inputs.get("sensitiveLabels")) or {}:
        if renamed.get(key, key) in labels:
            yield Failure(f"sensitiveLabels.{key}", "is also in labels")


def _bucket_object(inputs: Json) -> Iterator[Failure]:
    seen: set[Any] = set()
    contexts = as_object(inputs.get("contexts")) or {}
    for where, custom in _objects(contexts, "customs"):
        if custom.get("key") in seen:
            yield Failure(f"contexts.{where}.key", f"{custom.get('key')} is listed twice")
        seen.add(custom.get("key"))


_CHECKS: dict[str, Callable[[Json], Iterator[Failure]]] = {
    "container/cluster": _cluster,
    "container/nodePool": _node_pool,
    "compute/firewall": _firewall,
    "compute/healthCheck": _health_check,
    "compute/regionHealthCheck": _health_check,
    "compute/instanceTemplate": _instance_template,
    "compute/regionBackendService": _region_backend_service,
    "compute/router": _router,
    "compute/routerNat": _router_nat,
    "compute/regionSecurityPolicy": _security_policy,
    "compute/securityPolicy": _security_policy,
    "compute/regionSslPolicy": _ssl_policy,
    "compute/sSLPolicy": _ssl_policy,
    "cloudbuild/trigger": _trigger,
    "logging/projectSink": _sink,
    "monitoring/notificationChannel": _channel,
    "storage/bucketObject": _bucket_object,
}
