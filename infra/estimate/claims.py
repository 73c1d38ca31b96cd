"""The maximum number of nodes per rung that models, their roles and updates need."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from gke_inference.catalogue.quotas import made_by_google
from gke_inference.catalogue.rungs import Rung
from gke_inference.serving.updates import update_steps
from infra.plan import RegionCapacity, RegionPlan, ServedModel
from infra.stack import Form, NodePools

_UPGRADED_IN_PLACE = ("on-demand", "spot")


@dataclass(frozen=True)
class Claim:
    """The replicas of one model, role or hardware kind in one region."""

    who: str
    capacity: RegionCapacity
    """Its capacity. Node pools that the stack creates stop growing at their maximum."""
    rungs: Mapping[int, Rung]
    """Rungs by index in the stack. Any of them may have to run all replicas."""
    replicas: int
    """Maximum replicas, including those that an update adds and those that a buffer is for."""
    zones: int
    """Zones of the region's cluster."""
    disk_zones: tuple[str, ...] | None = None
    """Zones with a disk of the model's weights, to which it is restricted, or None if it has no
    disk."""

    def nodes(self, at: int) -> int:
        """Return the maximum number of nodes that it can request of one rung."""
        rung = self.rungs[at]
        wanted = self.replicas * rung.hosts
        pools = self.capacity.settings.node_pools
        if pools is None:
            return wanted
        per_zone = rung.kind == "tpu" or rung.provisioning == "flex-start"
        zones = len(rung.reservation_zones or rung.zones) or self.zones
        times = zones if per_zone else 1  # limits of such pools apply per zone
        return max(min(wanted, pools.max_nodes * times), pools.min_nodes * times)


def claims(region: RegionPlan, without: Collection[str] = ()) -> Iterator[Claim]:
    """Yield the maximum needs of every model and queue in a region, canaries included.

    Args:
        region: Region.
        without: Names of models to leave out.
    """
    zones = len(region.settings.zones)
    yield from model_claims(region, without)
    for queue in region.queues:
        for flavor in queue.flavors:
            here = flavor.capacity
            yield Claim(f"queue {queue.name}", here, here.rungs, flavor.nodes, zones)


def model_claims(region: RegionPlan, without: Collection[str] = ()) -> Iterator[Claim]:
    """Yield the maximum needs of every model in a region, without those of queues."""
    for served in region.served:
        for role in served.roles if served.name not in without else ():
            yield from _claims(role, len(region.settings.zones))


def _claims(served: ServedModel, zones: int) -> Iterator[Claim]:
    capacity, kept = served.capacity, served.disk_zones
    added, _ = update_steps(max(1, served.replicas.min + served.standby))
    replicas = served.replicas.max + added
    if served.form is Form.PAIRED:
        # either Deployment may have to serve alone; a buffer is for the first
        for of_kind, buffer in zip(served.pair, (served.buffer, 0), strict=True):
            yield Claim(served.name, capacity, of_kind, replicas + buffer, zones, kept)
    else:
        who = f"{served.name} prefill" if served.role == "prefill" else served.name
        yield Claim(who, capacity, capacity.rungs, replicas + served.buffer, zones, kept)


def upgrades(
    region: RegionPlan, without: Collection[str] = ()
) -> Iterator[tuple[RegionCapacity, int, int]]:
    """Yield the rungs whose upgrades add nodes: capacity, index, and nodes of the rung's pool.

    In a cluster with auto-provisioning limits, the pools that GKE creates stop at those limits.
    Slices are re-created, and flex-start nodes are not upgraded, whatever the pool's settings.

    Args:
        region: Region.
        without: Names of models to leave out, with the capacity that only they use.
    """
    is_limited = region.settings.auto_provisioning_limits is not None
    kept = {claim.capacity.name for claim in claims(region, without)}
    for capacity in region.used_capacity:
        pools = capacity.settings.node_pools
        if (pools is None and is_limited) or (without and capacity.name not in kept):
            continue
        for at, rung in capacity.rungs.items():
            nodes = _added(rung, pools)
            if nodes:
                yield capacity, at, nodes


def _added(rung: Rung, pools: NodePools | None) -> int:
    if pools is None:
        is_added = has_surge(rung.provisioning, is_slice=rung.is_slice)
        return made_by_google("surge_nodes_per_upgrade") if is_added else 0
    if pools.blue_green is not None:
        return pools.max_nodes
    return pools.max_surge if rung.has_surge else 0


def has_surge(provisioning: str, *, is_slice: bool) -> bool:
    """Return whether an upgrade of a rung's node pool, created by GKE, adds a node first.

    Reservations have no spare VMs, flex-start nodes are not upgraded, and slices are re-created.
    """
    return provisioning in _UPGRADED_IN_PLACE and not is_slice
