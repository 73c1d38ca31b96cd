"""Lifecycle of nodes: capacity, creation time, notice, removal.

The pool controller and the autoscaler each have a `Provisioner`. It never sleeps; `tick` performs
the actions that are due.
"""

import logging
import secrets
import threading
import time
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from typing import Any

from twin.cluster.base.context import ClusterContext
from twin.cluster.nodes import node_objects as nodes
from twin.cluster.nodes.disks import csi_node
from twin.cluster.nodes.locations import location_labels
from twin.cluster.nodes.networks import refused_networks
from twin.cluster.nodes.node_objects import NodeShape
from twin.cluster.nodes.policies import refused_placement
from twin.wire.kube import JsonObject, KubeError
from twin.world.capacity import Answer, Claim, claim_for
from twin.world.capacity_ledger import Ledger
from twin.world.rules import Rules

_LOG = logging.getLogger(__name__)
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_RETRY_SECONDS = 0.2
_CSI_NODES = "/apis/storage.k8s.io/v1/csinodes"


@dataclass
class Group:
    """Nodes that are created and removed together: one node, or all hosts of a TPU slice."""

    key: str
    shape: NodeShape
    zone: str
    names: tuple[str, ...]
    rung: int | None
    """Index of the rung in its compute class, from 0; None outside a class."""
    ready_at: float
    """Monotonic time at which the nodes register."""
    queued_until: float | None = None
    """Monotonic time at which waiting for capacity ends; None once it is granted."""
    next_try: float = 0.0
    places: tuple[tuple[NodeShape, str], ...] = ()
    """Shapes and zones that a group waiting for capacity tries, in order."""
    request: str | None = None
    """UID of the ProvisioningRequest of the group; None for the autoscaler's own groups."""

    @property
    def claims(self) -> list[Claim]:
        """Capacity that the group claims."""
        return [
            claim_for(
                self.shape.machine,
                node=name,
                zone=self.zone,
                provisioning=self.shape.provisioning,
                reservation=self.shape.reservation,
            )
            for name in self.names
        ]


class Provisioner:
    """Creates and removes nodes of one cluster for one controller."""

    def __init__(self, ctx: ClusterContext, owner: str) -> None:
        self._ctx = ctx
        self._lock = threading.RLock()
        self.ledger = Ledger(ctx.paths, ctx.dir, ctx.spec.project, owner)
        self.groups: dict[str, Group] = {}
        """Requested groups whose nodes are not yet registered."""
        self._registered: dict[str, Group] = {}
        self.removed: set[str] = set()
        """Names of removed nodes; names are not reused."""

    def coming(self, known: Set[str]) -> list[Group]:
        """Return the requested groups with nodes that a watcher has not seen yet.

        Args:
            known: Names of the nodes that the watcher has seen.
        """
        with self._lock:
            for key, group in list(self._registered.items()):
                if known >= set(group.names):
                    del self._registered[key]
            return [*self.groups.values(), *self._registered.values()]

    def recover(self) -> None:
        """Release capacity that an earlier run of this controller claimed but did not use."""
        existing = {item["metadata"]["name"] for item in self._ctx.kube.list("/api/v1/nodes")}
        for name in self.ledger.held() - existing:
            self.ledger.release(name)

    def new_names(self, shape: NodeShape, count: int) -> tuple[str, ...]:
        """Return unused node names."""

        def unique() -> str:
            return "".join(secrets.choice(_ALPHABET) for _ in range(4))

        cluster = self._ctx.spec.name
        return tuple(nodes.node_name(cluster, shape.pool, unique()) for _ in range(count))

    def request(
        self, shape: NodeShape, zone: str, hosts: int = 1, *, rung: int | None = None
    ) -> tuple[Answer, Group]:
        """Request a group of nodes now; if granted, they register after their creation time."""
        names = self.new_names(shape, hosts)
        ready_at = time.monotonic() + creation_seconds(shape, self._ctx.rules)
        group = Group(names[0], shape, zone, names, rung, ready_at)
        answer = self._refused(group) or self.ledger.acquire(group.claims)
        if answer.granted:
            self._requested(group)
        return answer, group

    def _refused(self, group: Group) -> Answer | None:
        """Return why nodes of a group cannot have their placement or their networks, or None."""
        shape = group.shape
        with self._lock:
            groups = [each for each in self.groups.values() if each.queued_until is None]
        coming = {
            name: each.shape.machine
            for each in groups
            if each.shape.placement == shape.placement
            for name in each.names
        }
        return refused_placement(self._ctx, shape, group.names, coming) or refused_networks(
            self._ctx, shape, group.zone, [(each.shape, each.zone) for each in groups]
        )

    def enqueue(
        self,
        places: Sequence[tuple[NodeShape, str]],
        hosts: int,
        *,
        rung: int | None,
        first: float,
        until: float,
        request: str | None = None,
    ) -> Group:
        """Wait for capacity from `first` until `until` (monotonic): flex-start, capacity check."""
        shape, zone = places[0]
        names = self.new_names(shape, hosts)
        group = Group(
            names[0], shape, zone, names, rung, 0.0, until, first, tuple(places), request=request
        )
        with self._lock:
            self.groups[group.key] = group
        return group

    def _requested(self, group: Group) -> None:
        with self._lock:
            self.groups[group.key] = group
        for name in group.names:
            self._event("node.requested", name, group, f"{group.shape.machine.name} {group.zone}")

    def _event(self, kind: str, name: str, group: Group, message: str, **more: Any) -> None:
        shape = group.shape
        self._ctx.events.emit(
            kind,
            name,
            message,
            cluster=self._ctx.dir.name,
            pool=shape.pool,
            zone=group.zone,
            machine=shape.machine.name,
            accelerator=shape.machine.accelerator,
            provisioning=shape.provisioning,
            compute_class=shape.compute_class,
            rung=group.rung,
            **more,
        )

    def tick(self, gave_up: Callable[[Group, Answer], None] | None = None) -> None:
        """Register the nodes that are due, and retry the groups that wait for capacity.

        Args:
            gave_up: Called with each group whose wait for capacity timed out.
        """
        now = time.monotonic()
        for group in list(self.groups.values()):
            if group.queued_until is not None and now >= group.next_try:
                self._try_queued(group, now, gave_up)
            if group.queued_until is None and now >= group.ready_at:
                self._register(group)

    def _try_queued(
        self, group: Group, now: float, gave_up: Callable[[Group, Answer], None] | None
    ) -> None:
        answer: Answer | None = None
        for shape, zone in group.places:
            group.shape, group.zone = shape, zone
            answer = self._refused(group) or self.ledger.acquire(group.claims)
            if answer.granted:
                group.queued_until = None
                group.ready_at = now + creation_seconds(group.shape, self._ctx.rules)
                self._requested(group)
                return
        if now < (group.queued_until or now):
            group.next_try = now + _RETRY_SECONDS
            return
        with self._lock:
            self.groups.pop(group.key, None)
        if gave_up is not None and answer is not None:
            gave_up(group, answer)

    def _register(self, group: Group) -> None:
        annotations = {nodes.GROUP_ANNOTATION: group.key}
        if group.rung is not None:
            annotations[nodes.RUNG_ANNOTATION] = str(group.rung)
        if group.request is not None:
            annotations[nodes.REQUEST_ANNOTATION] = group.request
        for name in group.names:
            body = nodes.build(
                group.shape,
                name=name,
                zone=group.zone,
                project=self._ctx.spec.project,
                annotations=annotations,
                location=location_labels(group.shape, name, group.zone, group.request),
                has_driver=not nodes.installs_driver(group.shape),
            )
            try:
                made = self._ctx.kube.post("/api/v1/nodes", body)
                self._ctx.kube.post(_CSI_NODES, csi_node(made))
            except KubeError as error:
                if error.status != 409:
                    raise
            self._event("node.ready", name, group, f"{group.shape.machine.name} {group.zone}")
        with self._lock:
            self.groups.pop(group.key, None)
            self._registered[group.key] = group

    def cancel(self, group: Group) -> None:
        """Cancel a request whose nodes are not yet registered."""
        with self._lock:
            self.groups.pop(group.key, None)
        for name in group.names:
            self.ledger.release(name)

    def remove(self, node: JsonObject, message: str) -> None:
        """Delete a node and its remaining pods, and release its machine."""
        name: str = node["metadata"]["name"]
        kube = self._ctx.kube
        with self._lock:
            self._registered = {k: g for k, g in self._registered.items() if name not in g.names}
        self.removed.add(name)
        try:
            kube.delete(f"/api/v1/nodes/{name}")
        except KubeError as error:
            if error.status != 404:
                raise
        # after the node, so that no replacement is scheduled on it
        for pod in kube.list("/api/v1/pods", field_selector=f"spec.nodeName={name}"):
            delete_pod(self._ctx, pod, grace=0)
        self.ledger.release(name)
        labels: dict[str, str] = node["metadata"].get("labels", {})
        annotations: dict[str, str] = node["metadata"].get("annotations", {})
        rung = annotations.get(nodes.RUNG_ANNOTATION)
        self._ctx.events.emit(
            "node.removed",
            name,
            message,
            cluster=self._ctx.dir.name,
            pool=labels.get(nodes.POOL_LABEL),
            zone=labels.get("topology.kubernetes.io/zone"),
            machine=labels.get("node.kubernetes.io/instance-type"),
            compute_class=labels.get(nodes.CLASS_LABEL),
            rung=None if rung is None else int(rung),
        )


def creation_seconds(shape: NodeShape, rules: Rules) -> float:
    """Return the time until nodes of a shape register, on the clock of the rules."""
    seconds = rules.scaled(f"node.create.{shape.machine.kind}")
    if nodes.installs_driver(shape):  # part of the rule's time
        seconds -= rules.scaled("node.gpu.driver")
    return seconds


def delete_pod(ctx: ClusterContext, pod: JsonObject, grace: int) -> None:
    """Delete a pod with at most `grace` seconds of grace; one that is gone is no error."""
    meta: JsonObject = pod["metadata"]
    path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
    allowed = pod["spec"].get("terminationGracePeriodSeconds", 30)
    body = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "gracePeriodSeconds": min(grace, allowed),
        "preconditions": {"uid": meta["uid"]},
    }
    try:
        ctx.kube.delete(path, body)
    except KubeError as error:
        if error.status not in {404, 409}:
            raise
