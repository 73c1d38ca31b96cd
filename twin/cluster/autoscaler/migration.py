"""Active migration: move workloads to a better rung when it has capacity again.

For a class with `activeMigration.optimizeRulePriority`: create the better node first, then cordon
the worse one, evict its pods (subject to disruption budgets), and remove it. Only one move runs at
a time.
"""

import time
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, replace

from twin.cluster.autoscaler.plan import pack
from twin.cluster.autoscaler.pods import Pod
from twin.cluster.autoscaler.rungs import Class, Offer, Rung, offers, room_of
from twin.cluster.autoscaler.state import Cluster, Node
from twin.cluster.base.context import ClusterContext
from twin.cluster.nodes import node_objects as nodes
from twin.cluster.nodes.pool_spec import PoolSpec
from twin.cluster.nodes.provisioning import Provisioner
from twin.wire.kube import JsonObject, KubeError

IsCooling = Callable[[str, Rung], bool]


@dataclass
class Move:
    """A move in progress."""

    source: str
    """Key of the group of nodes that the move empties."""
    target: frozenset[str]
    """Names of the nodes that must be Ready first; empty if existing nodes have room."""
    rung: Rung
    started: bool = False


def position(klass: Class, node: Node) -> int | None:
    """Return the index of a node's rung in its class, 0 for the best; None if it is on no rung."""
    written = node.annotations.get(nodes.RUNG_ANNOTATION)
    for place, rung in enumerate(klass.rungs):
        if node.pool in rung.pools or (written is not None and int(written) == rung.index):
            return place
    return len(klass.rungs) if written is not None else None


def better(
    klass: Class,
    pools: Mapping[str, PoolSpec],
    pool_counts: Mapping[str, dict[str, int]],
    place: int,
    pods: list[Pod],
    is_cooling: IsCooling,
) -> list[tuple[Rung, list[Offer]]]:
    """Return the rungs above an index that could hold some pods, best first, and their offers.

    Args:
        klass: Compute class of the pods.
        pools: Node pools by name.
        pool_counts: Nodes by pool and zone.
        place: Index of the rung that the pods run on.
        pods: Pods that move together.
        is_cooling: Returns whether a rung of a class is in its cooldown.
    """
    found: list[tuple[Rung, list[Offer]]] = []
    for rung in klass.rungs[:place]:
        if is_cooling(klass.name, rung):
            continue
        possible, _ = offers(rung, pods[0], klass, pools)
        fitting: list[Offer] = []
        for offer in possible:
            counts = pool_counts.get(offer.pool.name, {}) if offer.pool else {}
            if offer.pool is not None and not offer.pool.may_grow(counts, offer.zone):
                continue
            rooms = [room_of(offer.shape, offer.zone) for _ in range(offer.hosts)]
            if not pack(pods, rooms):
                fitting.append(offer)
        if fitting:
            found.append((rung, fitting))
    return found


class Migrations:
    """Active migration for all classes of a cluster."""

    def __init__(self, ctx: ClusterContext, provisioner: Provisioner) -> None:
        self._ctx = ctx
        self._provisioner = provisioner
        self._moves: dict[str, Move] = {}
        self._next: dict[str, float] = {}

    def scan(self, cluster: Cluster, waiting: Set[str], is_cooling: IsCooling) -> bool:
        """Do the next step of each class; return whether a move is in progress.

        Args:
            cluster: current state.
            waiting: classes with pending pods, which take precedence.
            is_cooling: returns whether a rung of a class is in its cooldown.
        """
        now = time.monotonic()
        for klass in cluster.classes.values():
            if not klass.migrates:
                continue
            move = self._moves.get(klass.name)
            if move is not None:
                self._advance(cluster, klass, move)
            elif klass.name not in waiting and now >= self._next.get(klass.name, 0.0):
                period = self._ctx.rules.scaled("rung.active-migration")
                self._next[klass.name] = now + period
                self._begin(cluster, klass, is_cooling)
        return bool(self._moves)

    def _begin(self, cluster: Cluster, klass: Class, is_cooling: IsCooling) -> None:
        groups: dict[str, list[Node]] = {}
        for node in cluster.nodes_of(klass.name):
            groups.setdefault(node.group, []).append(node)

        def place_of(key: str) -> int:
            return position(klass, groups[key][0]) or 0

        for key in sorted(groups, key=place_of, reverse=True):
            pods = [pod for node in groups[key] for pod in node.pods if not pod.daemon]
            if place_of(key) == 0 or not pods:
                continue
            for rung, found in better(
                klass, cluster.pools, cluster.pool_counts, place_of(key), pods, is_cooling
            ):
                target = self._make_room(cluster, klass, rung, found, pods)
                if target is not None:
                    self._moves[klass.name] = Move(key, target, rung)
                    return

    def _make_room(
        self, cluster: Cluster, klass: Class, rung: Rung, found: list[Offer], pods: list[Pod]
    ) -> frozenset[str] | None:
        """Return the nodes to wait for; None if the rung has no capacity."""
        place = klass.rungs.index(rung)
        rooms = [
            node.room()
            for node in cluster.nodes_of(klass.name)
            if node.usable and position(klass, node) == place
        ]
        if not pack(pods, rooms):
            return frozenset()
        for offer in found:
            shape = offer.shape
            if rung.wait_seconds and rung.provisioning == "flex-start":
                continue  # moving to a node that ends again gains nothing
            if offer.hosts > 1 and offer.pool is None:
                unique = self._provisioner.new_names(shape, 1)[0].rpartition("-")[2]
                shape = replace(shape, pool=f"{shape.pool}-{unique}")
            answer, group = self._provisioner.request(
                shape, offer.zone, offer.hosts, rung=offer.rung.index
            )
            if answer.granted:
                self._ctx.events.emit(
                    "rung.chosen",
                    rung.title,
                    f"{klass.name}: work moves back to {rung.title} in {offer.zone}",
                    cluster=self._ctx.dir.name,
                    compute_class=klass.name,
                    rung=rung.index,
                    zone=offer.zone,
                    machine=shape.machine.name,
                    migration=True,
                )
                return frozenset(group.names)
        return None

    def _advance(self, cluster: Cluster, klass: Class, move: Move) -> None:
        by_name = {node.name: node for node in cluster.nodes}
        requested = self._provisioner.coming(by_name.keys())
        coming = {name for group in requested for name in group.names}
        source = [node for node in cluster.nodes if node.group == move.source]
        lost = any(name not in by_name and name not in coming for name in move.target)
        if not source or lost:
            for node in source:
                self._cordon(node, on=False)
            del self._moves[klass.name]
            return
        if not all(name in by_name and by_name[name].usable for name in move.target):
            return
        if not move.started:
            for node in source:
                self._cordon(node, on=True)
            move.started = True
        left = [
            item
            for node in source
            for pod, item in zip(node.pods, node.pod_items, strict=True)
            if not pod.daemon
        ]
        for item in left:
            self._evict(item)
        if not left:
            for node in source:
                self._provisioner.remove(node.item, f"work moved to {move.rung.title}")
            del self._moves[klass.name]

    def _cordon(self, node: Node, *, on: bool) -> None:
        try:
            self._ctx.kube.patch(f"/api/v1/nodes/{node.name}", {"spec": {"unschedulable": on}})
        except KubeError as error:
            if error.status != 404:
                raise

    def _evict(self, pod: JsonObject) -> None:
        meta: JsonObject = pod["metadata"]
        if meta.get("deletionTimestamp"):
            return
        body: JsonObject = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": meta["name"], "namespace": meta["namespace"]},
        }
        own = int(pod["spec"].get("terminationGracePeriodSeconds", 30))
        most = int(self._ctx.rules.value("autoscaler.grace"))
        if own > most:
            body["deleteOptions"] = {"gracePeriodSeconds": most}
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/eviction"
        try:
            self._ctx.kube.post(path, body)
        except KubeError as error:
            if error.status not in {404, 429}:  # 429: a disruption budget says not now
                raise
