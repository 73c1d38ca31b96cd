"""Nodes from request to end: capacity, creation time, notice, removal.

Pool controller and autoscaler each have a `Provisioner`. Nothing sleeps: `tick` does what is due.
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
from twin.cluster.nodes.node_objects import NodeShape
from twin.wire.kube import JsonObject, KubeError
from twin.world.capacity import Answer, Claim, claim_for
from twin.world.capacity_ledger import Ledger

_LOG = logging.getLogger(__name__)
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_RETRY_SECONDS = 0.2


@dataclass
class Group:
    """Nodes that come and go together: one node, or all hosts of a TPU slice."""

    key: str
    shape: NodeShape
    zone: str
    names: tuple[str, ...]
    rung: int | None
    """Position of the rung in its class, from 0; None outside a class."""
    ready_at: float
    """Monotonic time at which the nodes register."""
    queued_until: float | None = None
    """Monotonic time at which waiting for capacity ends; None once it is granted."""
    next_try: float = 0.0
    places: tuple[tuple[NodeShape, str], ...] = ()
    """Where a group that waits for capacity may come up, in the order in which they are tried."""
    request: str | None = None
    """UID of the ProvisioningRequest that it is for; None for a group of the autoscaler's own."""

    @property
    def claims(self) -> list[Claim]:
        """What it asks of the world."""
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
        """Requested groups whose nodes are not registered yet."""
        self._registered: dict[str, Group] = {}
        self.removed: set[str] = set()
        """Names of the nodes that were removed; names are not used again."""

    def coming(self, known: Set[str]) -> list[Group]:
        """Return the requested groups that a watcher of nodes has not seen all nodes of.

        Args:
            known: names of the nodes that the watcher has seen.
        """
        with self._lock:
            for key, group in list(self._registered.items()):
                if known >= set(group.names):
                    del self._registered[key]
            return [*self.groups.values(), *self._registered.values()]

    def recover(self) -> None:
        """Give back what an earlier run of this controller took and never made a node of."""
        existing = {item["metadata"]["name"] for item in self._ctx.kube.list("/api/v1/nodes")}
        for name in self.ledger.held() - existing:
            self.ledger.release(name)

    def new_names(self, shape: NodeShape, count: int) -> tuple[str, ...]:
        """Return fresh node names."""

        def unique() -> str:
            return "".join(secrets.choice(_ALPHABET) for _ in range(4))

        cluster = self._ctx.spec.name
        return tuple(nodes.node_name(cluster, shape.pool, unique()) for _ in range(count))

    def creation_seconds(self, shape: NodeShape) -> float:
        """Return how long nodes of a shape take to come up, on the twin's clock."""
        return self._ctx.rules.scaled(f"node.create.{shape.machine.kind}")

    def request(
        self, shape: NodeShape, zone: str, hosts: int = 1, *, rung: int | None = None
    ) -> tuple[Answer, Group]:
        """Ask for a group of nodes now; when granted, they register after their creation time."""
        names = self.new_names(shape, hosts)
        ready_at = time.monotonic() + self.creation_seconds(shape)
        group = Group(names[0], shape, zone, names, rung, ready_at)
        answer = self.ledger.acquire(group.claims)
        if answer.granted:
            self._requested(group)
        return answer, group

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
        """Register the nodes that are due and ask again for what waits.

        Args:
            gave_up: told of each group that waited for capacity in vain.
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
            answer = self.ledger.acquire(group.claims)
            if answer.granted:
                group.queued_until = None
                group.ready_at = now + self.creation_seconds(group.shape)
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
            )
            try:
                self._ctx.kube.post("/api/v1/nodes", body)
            except KubeError as error:
                if error.status != 409:
                    raise
            self._event("node.ready", name, group, f"{group.shape.machine.name} {group.zone}")
        with self._lock:
            self.groups.pop(group.key, None)
            self._registered[group.key] = group

    def cancel(self, group: Group) -> None:
        """Drop a request whose nodes are not registered yet."""
        with self._lock:
            self.groups.pop(group.key, None)
        for name in group.names:
            self.ledger.release(name)

    def remove(self, node: JsonObject, message: str) -> None:
        """Delete a node and the pods left on it, and give its machine back."""
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
        # after the node, so that no replacement is put on it in between
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
