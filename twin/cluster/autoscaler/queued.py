"""Queued provisioning: create all nodes of a ProvisioningRequest together, or none.

Rules: queued.*, node.create.flex-start. The nodes belong to a pool with queued provisioning, in one
zone.
"""

import math
import time
from dataclasses import dataclass, field
from datetime import datetime

from twin.cluster.autoscaler.pods import requests_of
from twin.cluster.autoscaler.rungs import room_of
from twin.cluster.autoscaler.state import Cluster
from twin.cluster.base.context import ClusterContext
from twin.cluster.base.fields import part, parts, text_map
from twin.cluster.base.quantities import Amounts
from twin.cluster.base.reports import timestamp
from twin.cluster.nodes.node_objects import POOL_LABEL, REQUEST_ANNOTATION
from twin.cluster.nodes.pool_spec import PoolSpec
from twin.cluster.nodes.provisioning import Group, Provisioner
from twin.wire.kube import JsonObject, KubeError

CLASS = "queued-provisioning.gke.io"


class _RefusedError(Exception):
    """The request cannot be satisfied by any nodes."""


@dataclass
class _Request:
    """A request that waits for nodes or has them."""

    item: JsonObject
    group: Group | None = None
    provisioned_at: float | None = None
    is_expired: bool = False
    conditions: dict[str, JsonObject] = field(default_factory=dict[str, JsonObject])


class QueuedRequests:
    """The ProvisioningRequests of a cluster."""

    def __init__(self, ctx: ClusterContext, provisioner: Provisioner) -> None:
        self._ctx = ctx
        self._provisioner = provisioner
        self._known: dict[str, _Request] = {}

    def scan(self, cluster: Cluster) -> None:
        """Advance every request, and record the reserved nodes in `cluster`."""
        items = {
            item["metadata"]["uid"]: item
            for item in cluster.requests
            if item["spec"]["provisioningClassName"] == CLASS
        }
        for uid in [uid for uid in self._known if uid not in items]:
            self._drop(self._known.pop(uid))
        for uid, item in items.items():
            if uid not in self._known:
                self._known[uid] = self._first_seen(cluster, item)
            known = self._known[uid]
            if known.group is not None:
                self._move_on(cluster, known, known.group)
            elif not {"Failed", "Provisioned"} & known.conditions.keys():
                self._accept(cluster, known)  # an earlier autoscaler may have, without nodes yet
        cluster.booked = {
            known.group.key
            for known in self._known.values()
            if known.group is not None and not known.is_expired
        }

    def _first_seen(self, cluster: Cluster, item: JsonObject) -> _Request:
        """Return a request with the nodes created for it before the autoscaler restarted."""
        known = _Request(item, conditions=_conditions(item))
        uid = item["metadata"]["uid"]
        own = [node for node in cluster.nodes if node.annotations.get(REQUEST_ANNOTATION) == uid]
        pool = cluster.pools.get(own[0].pool) if own else None
        if pool is None:
            return known
        provisioned = known.conditions.get("Provisioned")
        if provisioned is None and len(own) < self._count(cluster, item):
            return known  # it ended among its nodes: these go, and the request begins again
        names = tuple(node.name for node in own)
        known.group = Group(own[0].group, pool.shape, own[0].zone, names, None, 0.0, request=uid)
        known.is_expired = "BookingExpired" in known.conditions
        if provisioned is not None:
            at = datetime.fromisoformat(provisioned["lastTransitionTime"]).timestamp()
            known.provisioned_at = time.monotonic() - (time.time() - at)
        return known

    def _count(self, cluster: Cluster, item: JsonObject) -> float:
        """Return the number of nodes that a request needs; infinity if no pool can provide them."""
        try:
            return self._wanted(cluster, item)[1]
        except _RefusedError:
            return math.inf

    def _accept(self, cluster: Cluster, known: _Request) -> None:
        try:
            pool, count = self._wanted(cluster, known.item)
            self._check_room(cluster, pool, count)
        except _RefusedError as error:
            self._report(known, "Failed", "OutOfResources", str(error))
            return
        rules, now = self._ctx.rules, time.monotonic()
        known.group = self._provisioner.enqueue(
            [(pool.shape, zone) for zone in pool.zones],
            count,
            rung=None,
            first=now + rules.scaled("node.create.flex-start"),
            until=math.inf,
            request=known.item["metadata"]["uid"],
        )
        message = f"Waiting for {count} {pool.shape.machine.name} of node pool {pool.name}."
        self._report(known, "Accepted", "Accepted", message)

    def _move_on(self, cluster: Cluster, known: _Request, group: Group) -> None:
        now = time.monotonic()
        if known.provisioned_at is None:
            usable = {node.name for node in cluster.nodes if node.usable}
            if usable >= set(group.names):
                known.provisioned_at = now
                message = "Provisioning Request was successfully provisioned."
                self._report(known, "Provisioned", "Provisioned", message)
            return
        kept = self._ctx.rules.scaled("queued.booking")
        if not known.is_expired and now - known.provisioned_at >= kept:
            known.is_expired = True
            message = "Capacity was provisioned more than 10 minutes ago."
            self._report(known, "BookingExpired", "BookingExpired", message)

    def _drop(self, known: _Request) -> None:
        """Cancel the pending nodes of a deleted request; existing nodes are removed when empty."""
        group = known.group
        if group is not None and group.key in self._provisioner.groups:
            self._provisioner.cancel(group)

    def _wanted(self, cluster: Cluster, item: JsonObject) -> tuple[PoolSpec, int]:
        """Return the pool of a request, and the number of nodes that its pods need.

        Raises:
            _RefusedError: No such pool exists, or it is too small.
        """
        pools: set[str] = set()
        total = 0
        for pod_set in item["spec"]["podSets"]:
            template = self._template(item, pod_set["podTemplateRef"]["name"])
            name = text_map(template, "nodeSelector").get(POOL_LABEL, "")
            pool = cluster.pools.get(name)
            if pool is None or not pool.queued:
                raise _RefusedError(f"no node pool with queued provisioning is called {name!r}")
            pools.add(name)
            each = _pods_per_node(requests_of(template), pool)
            total += -(-int(pod_set["count"]) // each)
        if len(pools) != 1:
            raise _RefusedError(f"pods must be for one node pool, got {sorted(pools)}")
        found = cluster.pools[pools.pop()]
        if found.max_total is not None and total > found.max_total:
            raise _RefusedError(
                f"node pool {found.name} has at most {found.max_total} nodes, asked for {total}"
            )
        return found, total

    def _check_room(self, cluster: Cluster, pool: PoolSpec, count: int) -> None:
        """Count the nodes of a pool, including those for which other requests wait.

        Raises:
            _RefusedError: The pool cannot have more nodes.
        """
        if pool.max_total is None:
            return
        seen = {node.name for node in cluster.nodes}
        coming = {
            name
            for group in self._provisioner.coming(seen)
            if group.shape.pool == pool.name
            for name in group.names
        }
        taken = sum(node.pool == pool.name for node in cluster.nodes) + len(coming - seen)
        if taken + count > pool.max_total:
            raise _RefusedError(f"Max nodepool size reached, affected nodepools: {pool.name}")

    def _template(self, item: JsonObject, name: str) -> JsonObject:
        namespace = item["metadata"]["namespace"]
        try:
            found = self._ctx.kube.get(f"/api/v1/namespaces/{namespace}/podtemplates/{name}")
        except KubeError as error:
            if error.status != 404:
                raise
            raise _RefusedError(f"there is no PodTemplate {name}") from error
        return part(found, "template", "spec")

    def _report(self, known: _Request, kind: str, reason: str, message: str) -> None:
        metadata = known.item["metadata"]
        known.conditions[kind] = {
            "lastTransitionTime": timestamp(),
            "message": message,
            "observedGeneration": metadata.get("generation", 1),
            "reason": reason,
            "status": "True",
            "type": kind,
        }
        path = (
            f"/apis/autoscaling.x-k8s.io/v1/namespaces/{metadata['namespace']}"
            f"/provisioningrequests/{metadata['name']}/status"
        )
        try:
            self._ctx.kube.patch(path, {"status": {"conditions": [*known.conditions.values()]}})
        except KubeError as error:
            if error.status != 404:
                raise
        self._ctx.events.emit(
            f"queued.{kind.lower()}", metadata["name"], message, cluster=self._ctx.dir.name
        )


def _pods_per_node(needs: Amounts, pool: PoolSpec) -> int:
    """Return the number of pods that fit on a node of a pool.

    Raises:
        _RefusedError: No pod fits.
    """
    free = room_of(pool.shape, pool.zones[0]).free
    fits = [int(free.get(name, 0.0) // amount) for name, amount in needs.items() if amount > 0]
    if not fits or min(fits) < 1:
        raise _RefusedError(f"no pod fits on a {pool.shape.machine.name} of {pool.name}")
    return min(fits)


def _conditions(item: JsonObject) -> dict[str, JsonObject]:
    return {each["type"]: each for each in parts(part(item, "status"), "conditions")}
