"""Scale-in: removes empty nodes after a delay, and nodes whose machine is withdrawn."""

import math
import time
from collections.abc import Iterable, Set
from dataclasses import dataclass

from twin.cluster.autoscaler.pods import refusal
from twin.cluster.autoscaler.rungs import Class
from twin.cluster.autoscaler.state import Cluster, Node
from twin.cluster.base.context import ClusterContext
from twin.cluster.base.fields import parts
from twin.cluster.base.pace import LOOK_SECONDS
from twin.cluster.nodes import node_objects as nodes
from twin.cluster.nodes.provisioning import Group, Provisioner, delete_pod
from twin.wire.kube import KubeError
from twin.world.rules import Rules


@dataclass
class _Notice:
    reason: str
    ends: float


class Shrinker:
    """The removal of nodes."""

    def __init__(self, ctx: ClusterContext, provisioner: Provisioner) -> None:
        self._ctx = ctx
        self._provisioner = provisioner
        self._empty_since: dict[str, float] = {}
        self._notices: dict[str, _Notice] = {}
        self._checked = 0.0
        self._lost: Set[str] = frozenset()
        """Nodes whose machine was withdrawn, as of the last look."""
        self._gone: set[str] = set()

    def scan(self, cluster: Cluster, coming: Iterable[Group]) -> bool:
        """Remove the nodes that are due; return whether another is about to be removed."""
        by_group: dict[str, list[Node]] = {}
        names: set[str] = set()
        for node in cluster.nodes:
            names.add(node.name)
            by_group.setdefault(node.group, []).append(node)
        self._gone &= names
        for pod in cluster.orphans:
            if pod["spec"]["nodeName"] in self._provisioner.removed:
                delete_pod(self._ctx, pod, grace=0)  # bound while the node was being removed
        self._take_away(by_group, coming)
        self._remove_empty(cluster, by_group)
        return bool(self._notices)

    def is_due(self) -> bool:
        """Return whether a machine was withdrawn, or its notice has ended, since the last scan."""
        now = time.monotonic()
        if any(now >= notice.ends for notice in self._notices.values()):
            return True
        return not self._provisioner.ledger.to_take_away().keys() <= self._lost

    def _remove(self, group: list[Node], message: str) -> None:
        for node in group:
            if node.name not in self._gone:
                self._provisioner.remove(node.item, message)
                self._gone.add(node.name)

    # -- withdrawn machines

    def _take_away(self, by_group: dict[str, list[Node]], coming: Iterable[Group]) -> None:
        now = time.monotonic()
        if now - self._checked >= LOOK_SECONDS:
            self._checked = now
            lost = self._provisioner.ledger.to_take_away()
            self._lost = lost.keys()
            for group in list(coming):
                if any(name in lost for name in group.names) and group.queued_until is None:
                    self._provisioner.cancel(group)
            for key, group_nodes in by_group.items():
                reason = next((lost[n.name] for n in group_nodes if n.name in lost), None)
                if reason is not None and key not in self._notices:
                    self._give_notice(key, group_nodes, reason, now)
        for key, notice in list(self._notices.items()):
            if key not in by_group:
                del self._notices[key]
            elif now >= notice.ends:
                self._remove(by_group[key], _ENDS[notice.reason])
                del self._notices[key]

    def _give_notice(self, key: str, group: list[Node], reason: str, now: float) -> None:
        seconds = notice_seconds(reason, self._ctx.rules)
        self._notices[key] = _Notice(reason, now + seconds)
        for node in group:
            self._ctx.events.emit(
                "node.notice",
                node.name,
                _ENDS[reason],
                cluster=self._ctx.dir.name,
                pool=node.pool,
                zone=node.zone,
                compute_class=node.labels.get(nodes.CLASS_LABEL),
            )
            if seconds:
                self._taint(node)
                grace = max(1, math.ceil(self._ctx.rules.scaled("node.spot.pods")))
                for pod in node.pod_items:
                    delete_pod(self._ctx, pod, grace=grace)

    def _taint(self, node: Node) -> None:
        taints = [
            *(parts(node.item["spec"], "taints")),
            {"key": nodes.TERMINATION_TAINT, "value": "", "effect": "NoSchedule"},
        ]
        try:
            self._ctx.kube.patch(f"/api/v1/nodes/{node.name}", {"spec": {"taints": taints}})
        except KubeError as error:
            if error.status != 404:
                raise

    # -- unneeded nodes

    def _remove_empty(self, cluster: Cluster, by_group: dict[str, list[Node]]) -> None:
        now = time.monotonic()
        idle: dict[str, float] = {}
        for key, group in by_group.items():
            kept = key in cluster.booked or key in cluster.held
            if key in self._notices or kept or not self._may_go(cluster, group):
                continue
            if all(node.empty for node in group) and not self._is_awaited(cluster, group):
                idle[key] = self._empty_since.get(key, now)
                klass = cluster.classes.get(group[0].labels.get(nodes.CLASS_LABEL, ""))
                if now - idle[key] >= removal_delay(klass, self._ctx.rules):
                    self._remove(group, "empty")
                    counts = cluster.pool_counts.get(group[0].pool, {})
                    counts[group[0].zone] = counts.get(group[0].zone, 0) - len(group)
        self._empty_since = idle

    @staticmethod
    def _is_awaited(cluster: Cluster, group: list[Node]) -> bool:
        """Return whether a pod that is not yet scheduled is expected on this node."""
        rooms = [node.room() for node in group]
        waiting = cluster.unschedulable
        return any(refusal(pod, room) is None for room in rooms for pod in waiting)

    def _may_go(self, cluster: Cluster, group: list[Node]) -> bool:
        first = group[0]
        spec = cluster.pools.get(first.pool)
        if spec is not None:
            return spec.may_shrink(cluster.pool_counts.get(first.pool, {}), first.zone)
        return first.labels.get("cloud.google.com/gke-nodepool-autoprovisioned") == "true"


_NOTICES = {
    "preempted": "node.spot.notice",
    "withdrawn": "node.spot.notice",
    "ended": "reservation.calendar.notice",
}
"""Rules with the time between a notice and the end of the machine; none for an outage."""
_ENDS = {
    "preempted": "spot machine preempted",
    "withdrawn": "reservation withdrawn",
    "ended": "reservation ended",
    "outage": "zone is down",
}


def removal_delay(klass: Class | None, rules: Rules) -> float:
    """Return for how long a node must be empty before it is removed, on the clock of the rules.

    Args:
        klass: Compute class of the node; None for one without.
        rules: The rules.
    """
    if klass is not None and klass.consolidation_delay_seconds is not None:
        return klass.consolidation_delay_seconds / rules.speed
    return rules.scaled("node.scale-down.delay")


def notice_seconds(reason: str, rules: Rules) -> float:
    """Return the time between a notice and the end of a machine, on the clock of the rules.

    Args:
        reason: A reason of `twin.world.capacity.to_take_away`.
        rules: The rules.
    """
    rule = _NOTICES.get(reason)
    return 0.0 if rule is None else rules.scaled(rule)
