"""Resolution of backend references: Services and InferencePools, their pods, their pickers."""

from dataclasses import dataclass, field, replace

from twin.cluster.base.matching import container_port
from twin.cluster.gateway.translation.conditions import Condition, Problem
from twin.cluster.gateway.translation.fleet import IMPORT_GROUP, IMPORT_KIND, tiers
from twin.cluster.gateway.translation.model import Backend, Endpoint, HealthCheck, Processor
from twin.cluster.gateway.translation.objects import (
    GATEWAY_GROUP,
    POOL_GROUP,
    JsonObject,
    Snapshot,
    items,
    mapping,
)
from twin.cluster.gateway.translation.policies import (
    armor_of,
    default_health_check,
    health_check_of,
    set_health_check,
    timeout_of,
)
from twin.cluster.gateway.translation.reachability import passable
from twin.world.rules import all_rules

_PROTOCOLS = {
    "kubernetes.io/h2c": "h2c",
    "HTTP2": "https",
    "https": "https",
    "HTTPS": "https",
}


def pool_classes() -> list[str]:
    """Return the gateway classes that support InferencePools."""
    return list(all_rules()["gateway.classes"].value)


def fleet_classes() -> list[str]:
    """Return the gateway classes over several clusters that support imported pools."""
    return list(all_rules()["fleet.classes"].value)


@dataclass
class BackendIndex:
    """The backends of one gateway, each resolved once."""

    snapshot: Snapshot
    gateway_class: str
    found: dict[str, Backend] = field(default_factory=dict[str, Backend])
    targets: set[tuple[str, str, str, str]] = field(default_factory=set[tuple[str, str, str, str]])
    """(group, kind, namespace, name) of the backends' objects."""

    def resolve(self, route_namespace: str, ref: JsonObject) -> Backend:
        """Return the backend of an HTTPRoute reference.

        Raises:
            Problem: error for the condition `ResolvedRefs`, with a reason defined by the Gateway
                API.
        """
        group, kind = ref.get("group", ""), ref.get("kind", "Service")
        namespace, name = ref.get("namespace", route_namespace), ref["name"]
        is_fleet = self.gateway_class in fleet_classes()
        if is_fleet and (group, kind) != (IMPORT_GROUP, IMPORT_KIND):
            text = f"backendRef {name}: must be a {IMPORT_KIND} for {self.gateway_class}"
            raise Problem("InvalidKind", f"{text}, got {group}/{kind}", "ResolvedRefs")
        if not is_fleet and (group, kind) not in {("", "Service"), (POOL_GROUP, "InferencePool")}:
            text = f"backendRef {name}: must be a Service or an InferencePool, got {group}/{kind}"
            raise Problem("InvalidKind", text, "ResolvedRefs")
        source = (GATEWAY_GROUP, "HTTPRoute", route_namespace)
        if not self.snapshot.allows(source, (group, kind, namespace, name)):
            text = f"{kind} {namespace}/{name}: no ReferenceGrant in {namespace} allows it"
            raise Problem("RefNotPermitted", text, "ResolvedRefs")
        if kind == "InferencePool" and self.gateway_class not in pool_classes():
            text = (
                f"InferencePool {name}: gateway class must be one of "
                f"{', '.join(sorted(pool_classes()))}, got {self.gateway_class}"
            )
            raise Problem("InvalidKind", text, "ResolvedRefs")
        obj = self.snapshot.get(kind, namespace, name)
        if obj is None:
            text = f"{kind} {namespace}/{name} does not exist"
            raise Problem("BackendNotFound", text, "ResolvedRefs")
        cluster = f"pool/{namespace}/{name}"
        if kind == "Service":
            cluster = f"service/{namespace}/{name}/{ref.get('port')}"
        if kind == IMPORT_KIND:
            cluster = f"import/{namespace}/{name}"
            self.found.setdefault(cluster, self._import(cluster, namespace, name))
        if cluster not in self.found:
            is_pool = kind == "InferencePool"
            self.found[cluster] = self._pool(obj) if is_pool else self._service(obj, ref)
        self.targets.add((group, kind, namespace, name))
        return self.found[cluster]

    def pool(self, namespace: str, name: str) -> Backend:
        """Return the backend of an existing InferencePool.

        Raises:
            KeyError: there is no such pool.
        """
        obj = self.snapshot.get("InferencePool", namespace, name)
        if obj is None:
            raise KeyError(f"{namespace}/{name}")
        return self._pool(obj)

    def _import(self, cluster: str, namespace: str, name: str) -> Backend:
        """Return the backend of an imported pool: the listeners of the clusters that export it.

        These listeners probe replicas with the check's path, so only connections are probed here.
        """
        fleet = self.snapshot.fleet
        target = (self.snapshot, namespace, IMPORT_GROUP, IMPORT_KIND, name)
        check = health_check_of(*target)
        return Backend(
            name=cluster,
            endpoints=(),
            health=replace(check, kind="TCP", path="/", host="", port=None),
            timeout_seconds=timeout_of(*target),
            tiers=() if fleet is None else tiers(fleet, (namespace, name)),
        )

    def _service(self, service: JsonObject, ref: JsonObject) -> Backend:
        namespace, name = service["metadata"]["namespace"], service["metadata"]["name"]
        if ref.get("port") is None:
            text = f"backendRef Service {name}: port is required"
            raise Problem("UnsupportedValue", text, "ResolvedRefs")
        port = service_port(service, ref["port"])
        health = health_check_of(self.snapshot, namespace, "", "Service", name)
        endpoints, dropped = service_endpoints(self.snapshot, service, port, health)
        return Backend(
            name=f"service/{namespace}/{name}/{ref['port']}",
            endpoints=endpoints,
            armor=armor_of(self.snapshot, namespace, "", "Service", name),
            dropped=dropped,
            health=health,
            timeout_seconds=timeout_of(self.snapshot, namespace, "", "Service", name),
            protocol=_PROTOCOLS.get(port.get("appProtocol", ""), "http"),
        )

    def _pool(self, pool: JsonObject) -> Backend:
        namespace, name = pool["metadata"]["namespace"], pool["metadata"]["name"]
        spec: JsonObject = pool["spec"]
        pods = self.snapshot.ready_pods(namespace, mapping(spec["selector"], "matchLabels"))
        health = health_check_of(self.snapshot, namespace, POOL_GROUP, "InferencePool", name)
        endpoints: list[Endpoint] = []
        dropped: list[str] = []
        for port in spec["targetPorts"]:
            found, said = passable(self.snapshot, pods, port["number"], health.port)
            endpoints += [Endpoint(pod["status"]["podIP"], port["number"]) for pod in found]
            dropped += said
        return Backend(
            name=f"pool/{namespace}/{name}",
            endpoints=tuple(endpoints),
            armor=armor_of(self.snapshot, namespace, POOL_GROUP, "InferencePool", name),
            dropped=tuple(dropped),
            health=health,
            picker=picker_of(self.snapshot, pool),
            timeout_seconds=timeout_of(self.snapshot, namespace, POOL_GROUP, "InferencePool", name),
            protocol=_PROTOCOLS.get(spec.get("appProtocol", "http"), "http"),
        )


def service_port(service: JsonObject, number: int) -> JsonObject:
    """Return a port of a Service by its number.

    Raises:
        Problem: the Service has no such port.
    """
    ports: list[JsonObject] = items(service["spec"], "ports")
    for port in ports:
        if port["port"] == number:
            return port
    name = service["metadata"]["name"]
    have = ", ".join(str(p["port"]) for p in ports) or "none"
    text = f"Service {name}: port must be one of {have}, got {number}"
    raise Problem("BackendNotFound", text, "ResolvedRefs")


def service_endpoints(
    snapshot: Snapshot, service: JsonObject, port: JsonObject, health: HealthCheck | None = None
) -> tuple[tuple[Endpoint, ...], tuple[str, ...]]:
    """Return the addresses and ports of the ready pods of a Service, which a check can probe.

    What the network drops on the way to the other pods comes second.

    Pods are read instead of EndpointSlices, which cannot have the loopback addresses of the twin's
    pods.
    """
    namespace = service["metadata"]["namespace"]
    endpoints: list[Endpoint] = []
    target = port.get("targetPort", port["port"])
    ready = snapshot.ready_pods(namespace, mapping(service["spec"], "selector"))
    pods, dropped = passable(snapshot, ready, target, None if health is None else health.port)
    for pod in pods:
        number = container_port(pod, target)
        if number is not None:
            probed = None
            if health is not None and health.port is not None:
                _, probed = snapshot.port_of(pod, health.port)
            endpoints.append(Endpoint(*snapshot.port_of(pod, number), probed))
    return tuple(endpoints), dropped


def processor_of(
    snapshot: Snapshot,
    namespace: str,
    service_name: str,
    port_number: int,
    name: str,
) -> Processor:
    """Return the external processor behind a Service port, with its health check.

    Without a HealthCheckPolicy, the check has the default times of GKE, and connects only.

    Raises:
        Problem: the Service, or its port, does not exist.
    """
    service = snapshot.get("Service", namespace, service_name)
    if service is None:
        text = f"Service {namespace}/{service_name} does not exist"
        raise Problem("BackendNotFound", text, "ResolvedRefs")
    port = service_port(service, port_number)
    health = set_health_check(snapshot, namespace, "", "Service", service_name)
    endpoints, dropped = service_endpoints(snapshot, service, port, health)
    return Processor(
        name=name,
        endpoints=endpoints,
        dropped=dropped,
        tls=port.get("appProtocol") != "kubernetes.io/h2c",
        authority=f"{service_name}.{namespace}.svc:{port_number}",
        health=health or replace(default_health_check(), kind="TCP"),
    )


def picker_of(snapshot: Snapshot, pool: JsonObject) -> Processor:
    """Return the endpoint picker of a pool; if its Service is missing, it has no endpoints."""
    namespace, name = pool["metadata"]["namespace"], pool["metadata"]["name"]
    ref: JsonObject = pool["spec"]["endpointPickerRef"]
    fail_open = ref.get("failureMode", "FailClose") == "FailOpen"
    cluster = f"picker/{namespace}/{name}"
    try:
        found = processor_of(snapshot, namespace, ref["name"], _picker_port(ref), cluster)
    except Problem:
        return Processor(cluster, (), fail_open)
    return Processor(
        cluster,
        found.endpoints,
        fail_open,
        found.tls,
        found.authority,
        health=found.health,
        dropped=found.dropped,
    )


def _picker_port(ref: JsonObject) -> int:
    return int(mapping(ref, "port").get("number", 9002))


def pool_conditions(snapshot: Snapshot, pool: JsonObject) -> tuple[Condition, Condition]:
    """Return `Accepted` and `ResolvedRefs` of an InferencePool that a Gateway uses."""
    ref: JsonObject = pool["spec"]["endpointPickerRef"]
    accepted = Condition("Accepted", True, "Accepted", "the Gateway uses this pool")
    try:
        processor_of(
            snapshot, pool["metadata"]["namespace"], ref["name"], _picker_port(ref), "picker"
        )
    except Problem as problem:
        return accepted, Condition("ResolvedRefs", False, "InvalidExtensionRef", problem.message)
    return accepted, Condition("ResolvedRefs", True, "ResolvedRefs", "the picker's Service exists")
