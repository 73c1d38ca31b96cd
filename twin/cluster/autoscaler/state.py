"""A snapshot of the cluster for the autoscaler, from watches and pool files."""

import logging
import threading
import time
from collections.abc import Iterable, Set
from dataclasses import dataclass, field, replace

from gke_inference.catalogue.versions import api
from twin.cluster.autoscaler import pods as autoscaler_pods
from twin.cluster.autoscaler.pods import DEFAULT_CLASS_LABEL, Pod, Room
from twin.cluster.autoscaler.rungs import Class, Rung, autopilot_rung, parse_class
from twin.cluster.autoscaler.volumes import Volumes
from twin.cluster.base.context import ClusterContext
from twin.cluster.base.fields import part, parts
from twin.cluster.base.informer import Informer
from twin.cluster.base.quantities import amounts
from twin.cluster.controlplane.kinds import has_kind
from twin.cluster.nodes import node_objects as nodes
from twin.cluster.nodes import pool_spec
from twin.cluster.nodes.interface_networks import named
from twin.cluster.nodes.policies import resource_policy
from twin.cluster.nodes.pool_spec import PoolSpec
from twin.cluster.nodes.pools import is_ready
from twin.cluster.nodes.provisioning import Group
from twin.wire.kube import JsonObject

_LOG = logging.getLogger(__name__)
_YOUNG_SECONDS = 30.0  # of real time: a busy machine's scheduler may take that long to look
_PODS_KEPT = 20_000
_FINISHED = {"Succeeded", "Failed"}
_TEMPLATES = "/apis/resource.k8s.io/v1/resourceclaimtemplates"
_VOLUMES = (
    "/api/v1/persistentvolumeclaims",
    "/api/v1/persistentvolumes",
    "/apis/storage.k8s.io/v1/storageclasses",
)
"""Collections in the order of the arguments of `Volumes`."""
_REQUESTS = "/apis/autoscaling.x-k8s.io/v1/provisioningrequests"
_BUFFER = api("capacity_buffer")


@dataclass
class Node:
    """A node and the pods on it."""

    item: JsonObject
    pods: list[Pod]
    pod_items: list[JsonObject]

    @property
    def name(self) -> str:
        """Name of the node."""
        return self.item["metadata"]["name"]

    @property
    def labels(self) -> dict[str, str]:
        """Labels of the node."""
        return part(self.item["metadata"], "labels")

    @property
    def annotations(self) -> dict[str, str]:
        """Annotations of the node."""
        return part(self.item["metadata"], "annotations")

    @property
    def group(self) -> str:
        """Key of its group; the node's own name if it is not in a group."""
        return self.annotations.get(nodes.GROUP_ANNOTATION, self.name)

    @property
    def pool(self) -> str:
        """Name of its node pool."""
        return self.labels.get(nodes.POOL_LABEL, "")

    @property
    def zone(self) -> str:
        """Its zone."""
        return self.labels.get("topology.kubernetes.io/zone", "")

    @property
    def empty(self) -> bool:
        """Whether only daemons run on it."""
        return all(pod.daemon for pod in self.pods)

    @property
    def usable(self) -> bool:
        """Whether it is Ready and accepts new pods."""
        return is_ready(self.item) and not self.item["spec"].get("unschedulable")

    def room(self) -> Room:
        """Return its free resources."""
        taints = tuple(
            (t["key"], t.get("value", ""), t["effect"])
            for t in parts(self.item["spec"], "taints")
            # a node that just registered is not ready for a moment
            if not t["key"].startswith("node.kubernetes.io/")
        )
        status: JsonObject = part(self.item, "status")
        # it counts with the GPUs that it reports once its driver is installed
        offered = {**nodes.promised_devices(self.item), **part(status, "allocatable")}
        room = Room(self.labels, taints, amounts(offered), [])
        for pod in self.pods:
            room.take(pod)
        return room


@dataclass
class Cluster:
    """A snapshot of a cluster."""

    unschedulable: list[Pod]
    nodes: list[Node]
    classes: dict[str, Class]
    pools: dict[str, PoolSpec]
    pool_counts: dict[str, dict[str, int]]
    class_items: dict[str, JsonObject]
    autopilot: bool
    zones: tuple[str, ...]
    orphans: list[JsonObject] = field(default_factory=list[JsonObject])
    """Pods on nodes that do not exist."""
    young: dict[str, Room] = field(default_factory=dict[str, Room])
    """Nodes that became ready a moment ago; the scheduler might not have considered them yet."""
    requests: list[JsonObject] = field(default_factory=list[JsonObject])
    """ProvisioningRequests."""
    booked: Set[str] = frozenset()
    """Keys of node groups that a ProvisioningRequest reserves for its pods."""
    buffers: list[JsonObject] = field(default_factory=list[JsonObject])
    """CapacityBuffers."""
    held: Set[str] = frozenset()
    """Keys of node groups that hold units of a capacity buffer."""
    default_classes: dict[str, str | None] = field(default_factory=dict[str, str | None])
    """Default class of each namespace."""
    volumes: Volumes = field(default_factory=Volumes)
    """Claims and volumes."""

    def rungs_without_class(self, pod: Pod) -> list[Rung]:
        """Return the rungs for pods without a class: autoscaled pools and Autopilot's nodes."""
        if self.autopilot:
            return [autopilot_rung(pod, self.zones)]
        plain = [
            spec
            for spec in self.pools.values()
            if spec.autoscaled and not spec.queued and spec.shape.compute_class is None
        ]
        return [
            Rung(index, {"nodepools": [spec.name]}, spec.shape.provisioning, ())
            for index, spec in enumerate(sorted(plain, key=lambda spec: spec.name))
        ]

    def nodes_of(self, class_name: str) -> list[Node]:
        """Return the nodes of a class."""
        return [node for node in self.nodes if node.labels.get(nodes.CLASS_LABEL) == class_name]


class ClusterState:
    """Watches of one cluster."""

    def __init__(self, ctx: ClusterContext) -> None:
        self._ctx = ctx
        self.wake = threading.Event()
        watches = ctx.watches
        self._pods = Informer(watches, "/api/v1/pods", self.wake)
        self._nodes = Informer(watches, "/api/v1/nodes", self.wake)
        self._namespaces = Informer(watches, "/api/v1/namespaces", self.wake)
        self._classes = Informer(watches, "/apis/cloud.google.com/v1/computeclasses", self.wake)
        self._requests = Informer(watches, _REQUESTS, self.wake)
        self._templates = Informer(watches, _TEMPLATES, self.wake)
        self._volumes = [Informer(watches, path, self.wake) for path in _VOLUMES]
        path = f"/apis/{_BUFFER.api_version}/capacitybuffers"
        self._buffers = (
            Informer(watches, path, self.wake) if has_kind(_BUFFER.kind, ctx.spec.version) else None
        )
        self._first_seen: dict[str, float] = {}
        self._pool_cache: dict[str, tuple[float, PoolSpec]] = {}
        self._pod_cache: dict[str, Pod] = {}
        self._class_cache: dict[str, tuple[str, Class]] = {}

    def start(self, stop: threading.Event) -> bool:
        """Start watching; return False if `stop` was set before everything was listed."""
        informers = (
            self._pods,
            self._nodes,
            self._namespaces,
            self._classes,
            self._requests,
            self._templates,
            *self._volumes,
            *([self._buffers] if self._buffers is not None else []),
        )
        for informer in informers:
            informer.start(stop)
        while not all(informer.synced.is_set() for informer in informers):
            if stop.wait(0.05):
                return False
        return True

    def classes(self) -> dict[str, Class]:
        """Return the compute classes by name."""
        found: dict[str, Class] = {}
        flex_wait = self._ctx.rules.seconds("rung.flex-start.wait")
        for item in self._classes.items():
            name, version = item["metadata"]["name"], item["metadata"]["resourceVersion"]
            cached = self._class_cache.get(name)
            if cached is None or cached[0] != version:
                cached = (version, parse_class(item, self._ctx.spec.zones, flex_wait))
                self._class_cache[name] = cached
            found[name] = cached[1]
        return found

    def node_names(self) -> set[str]:
        """Return the names of the nodes seen so far."""
        return {item["metadata"]["name"] for item in self._nodes.items()}

    def read(self, coming: Iterable[Group]) -> Cluster:
        """Return the current snapshot."""
        classes = self.classes()
        defaults = {
            item["metadata"]["name"]: part(item["metadata"], "labels").get(DEFAULT_CLASS_LABEL)
            for item in self._namespaces.items()
        }
        templates = {
            f"{item['metadata']['namespace']}/{item['metadata']['name']}": item
            for item in self._templates.items()
        }
        volumes = Volumes(*(informer.items() for informer in self._volumes))
        waiting: list[Pod] = []
        placed: dict[str, list[tuple[Pod, JsonObject]]] = {}
        for item in self._pods.items():
            node = item["spec"].get("nodeName")
            if node and part(item, "status").get("phase") not in _FINISHED:
                placed.setdefault(node, []).append((self._parsed(item, templates, volumes), item))
            elif autoscaler_pods.is_unschedulable(item):
                namespace = item["metadata"]["namespace"]
                default = defaults.get(namespace)
                waiting.append(
                    autoscaler_pods.parse(item, default, classes, templates, volumes=volumes)
                )
        found = [
            Node(item, [p for p, _ in on], [i for _, i in on])
            for item in self._nodes.items()
            for on in [placed.get(item["metadata"]["name"], [])]
        ]
        cluster = Cluster(
            unschedulable=sorted(waiting, key=lambda pod: pod.key),
            nodes=found,
            classes=classes,
            pools=self._pools(),
            pool_counts={},
            class_items={item["metadata"]["name"]: item for item in self._classes.items()},
            autopilot=self._ctx.spec.autopilot,
            zones=self._ctx.spec.zones,
            requests=self._requests.items(),
            buffers=[] if self._buffers is None else self._buffers.items(),
            default_classes=defaults,
            volumes=volumes,
        )
        names = {node.name for node in found}
        self._first_seen = {n: at for n, at in self._first_seen.items() if n in names}
        cluster.orphans = [
            item for name, on in placed.items() if name not in names for _, item in on
        ]
        self._count(cluster, coming)
        young = [node for node in found if self._is_young(node)]
        if waiting or cluster.buffers:
            cluster.young = {node.name: node.room() for node in young}
        return cluster

    def _parsed(self, item: JsonObject, templates: dict[str, JsonObject], volumes: Volumes) -> Pod:
        """Return a scheduled pod; its relevant fields do not change while it exists."""
        uid: str = item["metadata"]["uid"]
        cached = self._pod_cache.get(uid)
        if cached is not None:
            return cached
        pod = autoscaler_pods.parse(item, templates=templates, volumes=volumes)
        if () in pod.devices or not all(need.terms for need in pod.volumes):
            return pod  # a claim or its template is not known yet
        if len(self._pod_cache) > _PODS_KEPT:
            self._pod_cache.clear()
        self._pod_cache[uid] = pod
        return pod

    def _is_young(self, node: Node) -> bool:
        if node.item["spec"].get("unschedulable"):
            return False
        now = time.monotonic()
        seen = self._first_seen.setdefault(node.name, now)
        is_new = now - seen < _YOUNG_SECONDS or not is_ready(node.item)
        return is_new or bool(nodes.promised_devices(node.item))

    def _count(self, cluster: Cluster, coming: Iterable[Group]) -> None:
        counts = cluster.pool_counts
        for node in cluster.nodes:
            zones = counts.setdefault(node.pool, {})
            zones[node.zone] = zones.get(node.zone, 0) + 1
        seen = {node.name for node in cluster.nodes}
        for group in coming:
            zones = counts.setdefault(group.shape.pool, {})
            missing = sum(name not in seen for name in group.names)
            zones[group.zone] = zones.get(group.zone, 0) + missing

    def _pools(self) -> dict[str, PoolSpec]:
        found: dict[str, PoolSpec] = {}
        for file in sorted((self._ctx.dir / "pools").glob("*.json")):
            if file.name.endswith(".status.json"):
                continue
            try:
                changed = file.stat().st_mtime
                cached = self._pool_cache.get(file.name)
                if cached is None or cached[0] != changed:
                    spec = pool_spec.load(file, lambda name: resource_policy(self._ctx, name))
                    cached = (changed, spec)
                    self._pool_cache[file.name] = cached
            except (FileNotFoundError, ValueError, KeyError) as error:
                _LOG.debug("%s: %s", file, error)
                continue
            spec = cached[1]
            names = named(self._ctx, spec.shape.interfaces)
            found[spec.name] = replace(spec, shape=replace(spec.shape, networks=names))
        return found
