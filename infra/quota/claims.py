"""Who wants how many nodes of which rungs at most: models, their roles and their updates."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gke_inference.catalogue.rungs import Rung
from gke_inference.serving.updates import update_steps
from infra.plan import RegionCapacity, RegionPlan, ServedModel
from infra.stack import Form

_UPGRADED_IN_PLACE = ("on-demand", "spot")


@dataclass(frozen=True)
class Claim:
    """The replicas of one model, or of one role or kind of it, in one region."""

    who: str
    capacity: RegionCapacity
    """Pools that are made beforehand for it stop growing at their maximum."""
    rungs: Mapping[int, Rung]
    """By their place in the stack; each may have to take all replicas."""
    replicas: int
    """At most, with the one that an update adds."""
    zones: int
    """Zones of the region's cluster."""
    disk_zones: tuple[str, ...] | None = None
    """Zones with a disk of the model's weights, which it does not leave; None: it has no disk."""

    def nodes(self, at: int) -> int:
        """Return the nodes that it can ask of one rung at most."""
        rung = self.rungs[at]
        wanted = self.replicas * rung.hosts
        pools = self.capacity.settings.node_pools
        if pools is None:
            return wanted
        per_zone = rung.kind == "tpu" or rung.provisioning == "flex-start"
        zones = len(rung.reservation_zones or rung.zones) or self.zones
        times = zones if per_zone else 1  # limits of such pools are of each zone
        return max(min(wanted, pools.max_nodes * times), pools.min_nodes * times)


def claims(region: RegionPlan) -> Iterator[Claim]:
    """Yield what every model, canaries included, can ask for in a region."""
    zones = len(region.settings.zones)
    for served in region.served:
        for role in served.roles:
            yield from _claims(role, zones)
    for queue in region.queues:
        for flavor in queue.flavors:
            here = flavor.capacity
            yield Claim(f"queue {queue.name}", here, here.rungs, flavor.nodes, zones)


def _claims(served: ServedModel, zones: int) -> Iterator[Claim]:
    capacity, kept = served.capacity, served.disk_zones
    added, _ = update_steps(served.minimum + served.standby)
    replicas = served.maximum + added
    if served.form is Form.PAIRED:
        for kind in ("tpu", "gpu"):  # either side may have to serve alone
            of_kind = capacity.of_kind(kind)
            yield Claim(served.name, capacity, of_kind, replicas, zones, kept)
    else:
        who = f"{served.name} prefill" if served.role == "prefill" else served.name
        yield Claim(who, capacity, capacity.rungs, replicas, zones, kept)


def upgrades(region: RegionPlan) -> Iterator[tuple[RegionCapacity, int]]:
    """Yield capacities and places of rungs whose pools GKE upgrades by adding a node first.

    Pools made beforehand and those of a cluster with auto-provisioning limits add none; what is
    reserved has no spare, a flex-start node is not upgraded, and a slice is re-created.
    """
    if region.settings.auto_provisioning_limits is not None:
        return
    for capacity in region.used_capacity:
        if capacity.settings.node_pools is not None:
            continue
        for at, rung in capacity.rungs.items():
            if rung.provisioning in _UPGRADED_IN_PLACE and not rung.is_slice:
                yield capacity, at
