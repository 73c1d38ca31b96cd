"""GKE's controller of pod networks: conditions of the objects, and the resources of nodes.

Rules: `network.objects`, `network.pods`. It does nothing in a cluster without multi-networking.
"""

import logging
import threading
from collections.abc import Iterable

from twin.cluster.base.context import ClusterContext
from twin.cluster.base.fields import part, parts
from twin.cluster.base.informer import Informer
from twin.cluster.base.reports import timestamp
from twin.cluster.nodes.interfaces import (
    RESOURCE_PREFIX,
    Cloud,
    Condition,
    attached,
    interfaces_of,
    network_conditions,
    parameters_condition,
    resources,
)
from twin.wire.kube import JsonObject, KubeError
from twin.wire.property_values import last_segment

_LOG = logging.getLogger(__name__)
_API = "/apis/networking.gke.io/v1"
NETWORKS = f"{_API}/networks"
PARAMETERS = f"{_API}/gkenetworkparamsets"
_IDLE_SECONDS = 1.0


class InterfaceNetworks:
    """Keeps the statuses of networks, and the networks that nodes offer, up to date."""

    def __init__(self, ctx: ClusterContext) -> None:
        self._ctx = ctx
        self._wake = threading.Event()
        self._networks = Informer(ctx.watches, NETWORKS, self._wake)
        self._parameters = Informer(ctx.watches, PARAMETERS, self._wake)
        self._nodes = Informer(ctx.watches, "/api/v1/nodes", self._wake)

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set."""
        for informer in (self._networks, self._parameters, self._nodes):
            informer.start(stop)
        while not stop.is_set():
            try:
                self.scan()
            except KubeError as error:
                _LOG.warning("networks of interfaces: %s", error)
            self._wake.wait(_IDLE_SECONDS)
            self._wake.clear()
            stop.wait(_IDLE_SECONDS / 10)  # several objects change together

    def scan(self) -> None:
        """Bring every object up to date."""
        networks, parameters = self._networks.items(), self._parameters.items()
        if not networks and not parameters:
            return
        cloud = cloud_of(self._ctx)
        if cloud is None:
            return
        ready: dict[str, JsonObject] = {}
        for each in parameters:
            condition = parameters_condition(each, parameters, cloud)
            subnet = str(part(each, "spec").get("vpcSubnet"))
            blocks = [cloud.subnets[subnet]] if condition.is_true else []
            more: JsonObject = {"podCIDRs": {"cidrBlocks": blocks}} if blocks else {}
            self._report(f"{PARAMETERS}/{each['metadata']['name']}", each, [condition], more)
            if condition.is_true:
                ready[each["metadata"]["name"]] = each
        for each in networks:
            found = network_conditions(each, ready)
            if found is not None:
                self._report(f"{NETWORKS}/{each['metadata']['name']}", each, found, {})
        self._equip(attached(networks, parameters))

    def _equip(self, names: dict[tuple[str, str], str]) -> None:
        """Write the networks that nodes offer."""
        for node in self._nodes.items():
            attachments = interfaces_of(node)
            if not attachments:
                continue
            wanted = resources(names[each] for each in attachments if each in names)
            present = {
                name
                for name in part(part(node, "status"), "allocatable")
                if name.startswith(RESOURCE_PREFIX)
            }
            if present == wanted.keys():
                continue
            change = {**dict.fromkeys(present - wanted.keys()), **wanted}
            body = {"status": {"allocatable": change, "capacity": change}}
            self._patch(f"/api/v1/nodes/{node['metadata']['name']}/status", body)

    def _report(
        self, path: str, item: JsonObject, conditions: Iterable[Condition], more: JsonObject
    ) -> None:
        before = {each.get("type"): each for each in parts(part(item, "status"), "conditions")}
        if all(each.same(before.get(each.type, {})) for each in conditions):
            return
        written = [
            {
                "lastTransitionTime": timestamp(),
                "message": each.message,
                "reason": each.reason,
                "status": "True" if each.is_true else "False",
                "type": each.type,
            }
            for each in conditions
        ]
        self._patch(f"{path}/status", {"status": {"conditions": written, **more}})

    def _patch(self, path: str, body: JsonObject) -> None:
        try:
            self._ctx.kube.patch(path, body)
        except KubeError as error:
            if error.status != 404:  # 404: it is gone
                raise


def cloud_of(ctx: ClusterContext) -> Cloud | None:
    """Return what the cluster's project has, or None if its cluster has no multi-networking."""
    from twin.world.store import Store  # noqa: PLC0415 - only clusters with networks need it

    if not ctx.paths.cloud_db.exists():
        return None
    store = Store(ctx.paths.cloud_db)
    clusters = store.find("gcp:container/cluster:Cluster", ctx.spec.name)
    own = next((each for each in clusters if each.project == ctx.spec.project), None)
    if own is None or own.outputs.get("enableMultiNetworking") is not True:
        return None
    subnets = store.find("gcp:compute/subnetwork:Subnetwork")
    return Cloud(
        own_network=last_segment(str(own.outputs.get("network"))),
        networks=frozenset(each.name for each in store.find("gcp:compute/network:Network")),
        subnets={
            each.name: str(each.outputs.get("ipCidrRange"))
            for each in subnets
            if last_segment(str(each.outputs.get("region"))) == ctx.spec.region
        },
    )


def named(ctx: ClusterContext, attachments: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Return the ready networks that nodes with some interfaces offer."""
    wanted = list(attachments)
    if not wanted:
        return ()
    names = attached(ctx.kube.list(NETWORKS), ctx.kube.list(PARAMETERS))
    return tuple(names[each] for each in wanted if each in names)
