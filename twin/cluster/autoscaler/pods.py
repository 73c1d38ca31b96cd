"""Pods as the autoscaler sees them: requests, placement constraints, and fit. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from twin.cluster.autoscaler.volumes import TOO_MANY, Need, Volumes
from twin.cluster.base.fields import part, parts, text_map
from twin.cluster.base.matching import Term, node_terms, selects, term_matches
from twin.cluster.base.quantities import Amounts, amounts
from twin.cluster.devices import devices as claims
from twin.cluster.devices.devices import Devices, Request, devices_of
from twin.cluster.nodes.node_objects import CLASS_LABEL, POOL_LABEL
from twin.wire.kube import JsonObject
from twin.world.disk_limits import attach_limit

DEFAULT_CLASS_LABEL = "cloud.google.com/default-compute-class"
CLUSTER_DEFAULT_CLASS = "default"


@dataclass(frozen=True)
class Pod:
    """A pod that is pending or runs on a node."""

    uid: str
    namespace: str
    name: str
    requests: Amounts
    selector: dict[str, str]
    affinity: tuple[Term, ...]
    """Required node affinity: terms, any of which must match."""
    tolerations: tuple[tuple[str, str, str, str], ...]
    """(key, operator, value, effect); an empty key or effect matches all."""
    compute_class: str | None
    alone_by: tuple[dict[str, str], ...] = ()
    """Labels of pods with which it must not share a host (required anti-affinity by hostname)."""
    alone_in_pool: tuple[JsonObject, ...] = ()
    """Selectors of pods with which it must not share a node pool (groups with one slice each)."""
    labels: dict[str, str] | None = None
    devices: tuple[Request, ...] = ()
    """Requests of its claims."""
    volumes: tuple[Need, ...] = ()
    """What its PersistentVolumeClaims require of a node."""
    node: str | None = None
    daemon: bool = False
    buffer: str | None = None
    """Name of the capacity buffer that it is a unit of; the pod then exists only in memory."""

    @property
    def key(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"


def requests_of(spec: JsonObject) -> Amounts:
    """Return a pod's requests: the sum of its containers, or the largest init container."""
    total: Amounts = {}
    sidecars: Amounts = {}
    first: Amounts = {}
    for container in spec.get("containers", []):
        _add(total, _container(container))
    for container in parts(spec, "initContainers"):
        needs = _container(container)
        if container.get("restartPolicy") == "Always":
            _add(sidecars, needs)
            continue
        for name, value in needs.items():
            first[name] = max(first.get(name, 0.0), value + sidecars.get(name, 0.0))
    _add(total, sidecars)
    for name, value in first.items():
        total[name] = max(total.get(name, 0.0), value)
    _add(total, amounts(part(spec, "overhead")))
    return total


def _container(container: JsonObject) -> Amounts:
    resources: JsonObject = part(container, "resources")
    return amounts({**part(resources, "limits"), **part(resources, "requests")})


def _add(total: Amounts, more: Amounts) -> None:
    for name, value in more.items():
        total[name] = total.get(name, 0.0) + value


def parse(
    item: JsonObject,
    default_class: str | None = None,
    classes: Iterable[str] = (),
    templates: Mapping[str, JsonObject] = MappingProxyType({}),
    buffer: str | None = None,
    volumes: Volumes | None = None,
) -> Pod:
    """Return a Pod object as the autoscaler sees it.

    Args:
        item: the API object.
        default_class: default class of its namespace.
        classes: names of the existing classes; `default` is the cluster's default.
        templates: claim templates by namespace and name.
        buffer: name of the capacity buffer that it is a unit of.
        volumes: claims and volumes of the cluster; None ignores the pod's claims.
    """
    spec: JsonObject = item["spec"]
    meta: JsonObject = item["metadata"]
    owners: list[JsonObject] = parts(meta, "ownerReferences")
    selector: dict[str, str] = text_map(spec, "nodeSelector")
    affinity = part(spec, "affinity")
    terms = node_terms(
        part(affinity, "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    )
    daemon = any(owner["kind"] == "DaemonSet" for owner in owners)
    chosen = selector.get(CLASS_LABEL) or _class_in(terms)
    if chosen is None and not daemon:
        chosen = default_class
        if chosen is None and CLUSTER_DEFAULT_CLASS in set(classes):
            chosen = CLUSTER_DEFAULT_CLASS
    return Pod(
        uid=meta["uid"],
        namespace=meta["namespace"],
        name=meta["name"],
        requests=requests_of(spec),
        selector=selector,
        affinity=terms,
        tolerations=tuple(
            (
                str(entry.get("key") or ""),
                str(entry.get("operator") or "Equal"),
                str(entry.get("value") or ""),
                str(entry.get("effect") or ""),
            )
            for entry in parts(spec, "tolerations")
        ),
        compute_class=chosen,
        alone_by=_alone_by(part(affinity, "podAntiAffinity")),
        alone_in_pool=tuple(
            part(term, "labelSelector")
            for term in parts(
                part(affinity, "podAntiAffinity"), "requiredDuringSchedulingIgnoredDuringExecution"
            )
            if term.get("topologyKey") == POOL_LABEL
        ),
        labels=text_map(meta, "labels"),
        devices=_claimed(spec, meta["namespace"], templates),
        volumes=() if volumes is None else volumes.needs(item),
        node=spec.get("nodeName"),
        daemon=daemon,
        buffer=buffer,
    )


def _claimed(
    spec: JsonObject, namespace: str, templates: Mapping[str, JsonObject]
) -> tuple[Request, ...]:
    """Return what a pod claims; a claim that is not known here can be satisfied nowhere."""
    found: list[Request] = []
    for claim in parts(spec, "resourceClaims"):
        template = templates.get(f"{namespace}/{claim.get('resourceClaimTemplateName')}")
        if template is None:
            found.append(())
        else:
            found += claims.requests_of(part(template["spec"], "spec"))
    return tuple(found)


def _class_in(terms: tuple[Term, ...]) -> str | None:
    for term in terms:
        for key, operator, values in term:
            if key == CLASS_LABEL and operator == "In" and values:
                return values[0]
    return None


def _alone_by(anti_affinity: JsonObject) -> tuple[dict[str, str], ...]:
    return tuple(
        text_map(part(term, "labelSelector"), "matchLabels")
        for term in parts(anti_affinity, "requiredDuringSchedulingIgnoredDuringExecution")
        if term.get("topologyKey") == "kubernetes.io/hostname"
    )


def is_unschedulable(item: JsonObject) -> bool:
    """Return whether the scheduler tried a pod and found no node for it."""
    if item["spec"].get("nodeName") or item["metadata"].get("deletionTimestamp"):
        return False
    status: JsonObject = part(item, "status")
    conditions: list[JsonObject] = parts(status, "conditions")
    return any(
        entry["type"] == "PodScheduled"
        and entry["status"] == "False"
        and entry.get("reason") == "Unschedulable"
        for entry in conditions
    )


@dataclass
class Room:
    """A node, real or planned, with its free resources."""

    labels: dict[str, str]
    taints: tuple[tuple[str, str, str], ...]
    free: Amounts
    pods: list[Pod]
    devices_taken: Amounts = field(default_factory=Amounts)
    """Number of devices taken by DeviceClass."""
    disks: set[str] = field(default_factory=set[str])
    """Disks that its pods attach; several pods share one."""

    def take(self, pod: Pod) -> None:
        """Assign a pod."""
        self.disks |= {need.disk for need in pod.volumes if need.disk is not None}
        _add(self.devices_taken, self.claimed(pod) or {})
        for name, value in pod.requests.items():
            self.free[name] = self.free.get(name, 0.0) - value
        self.free["pods"] = self.free.get("pods", 0.0) - 1
        self.pods.append(pod)

    def claimed(self, pod: Pod) -> Amounts | None:
        """Return the devices that a pod's claims would take, or None if too few are left."""
        available = devices_of(self.labels) if pod.devices else ()
        taken: Amounts = {}
        for request in pod.devices:
            way = self._way(request, available, taken)
            if way is None:
                return None
            _add(taken, way)
        return taken

    def _way(
        self, request: Request, available: tuple[Devices, ...], taken: Amounts
    ) -> Amounts | None:
        for way in request:
            for devices in available:
                name = devices.device_class
                used = self.devices_taken.get(name, 0) + taken.get(name, 0)
                number = way.taken(devices, devices.count - int(used))
                if number is not None:
                    return {name: float(number)}
        return None


def refusal(pod: Pod, room: Room) -> str | None:
    """Return why a pod cannot run on a node, in the scheduler's wording; None if it can."""
    for need in pod.volumes:
        if not need.terms:  # no node meets it
            return need.why
    if any(room.labels.get(key) != value for key, value in pod.selector.items()) or (
        pod.affinity and not any(term_matches(term, room.labels) for term in pod.affinity)
    ):
        return "node(s) didn't match Pod's node affinity/selector"
    for taint in room.taints:
        if taint[2] != "PreferNoSchedule" and not tolerates(pod, taint):
            return f"node(s) had untolerated taint {{{taint[0]}: {taint[1]}}}"
    for name, value in sorted(pod.requests.items()):
        if value > room.free.get(name, 0.0) + 1e-9:
            return f"Insufficient {name}"
    if room.claimed(pod) is None:
        return "cannot allocate all claims"
    if room.free.get("pods", 0.0) < 1:
        return "Too many pods"
    conflict = _volume_conflict(pod, room)
    if conflict is not None:
        return conflict
    return None if _may_share(pod, room) else "node(s) didn't match pod anti-affinity rules"


def _volume_conflict(pod: Pod, room: Room) -> str | None:
    """Return why a node cannot have the volumes of a pod, or None."""
    disks = room.disks | {need.disk for need in pod.volumes if need.disk is not None}
    limit = attach_limit(room.labels.get("node.kubernetes.io/instance-type", ""))
    if len(disks) > max(limit, len(room.disks)):
        return TOO_MANY
    for need in pod.volumes:
        if not any(term_matches(term, room.labels) for term in need.terms):
            return need.why
    return None


def may_share_pool(pod: Pod, room: Room, rooms: Iterable[Room]) -> bool:
    """Return whether a pod may share the pool of a room with the pods that are there."""
    if not pod.alone_in_pool:
        return True
    pool = room.labels.get(POOL_LABEL)
    mates = [mate for other in rooms if other.labels.get(POOL_LABEL) == pool for mate in other.pods]
    return not any(
        selects(selector, mate.labels or {}) for mate in mates for selector in pod.alone_in_pool
    )


def _may_share(pod: Pod, room: Room) -> bool:
    def has(labels: dict[str, str] | None, wanted: dict[str, str]) -> bool:
        return all((labels or {}).get(key) == value for key, value in wanted.items())

    for other in room.pods:
        if any(has(other.labels, wanted) for wanted in pod.alone_by):
            return False
        if any(has(pod.labels, wanted) for wanted in other.alone_by):
            return False
    return True


def tolerates(pod: Pod, taint: tuple[str, str, str]) -> bool:
    """Return whether a pod tolerates a taint (key, value, effect)."""
    key, value, effect = taint
    for t_key, operator, t_value, t_effect in pod.tolerations:
        if t_effect and t_effect != effect:
            continue
        if not t_key and operator == "Exists":
            return True
        if t_key == key and (operator == "Exists" or t_value == value):
            return True
    return False
