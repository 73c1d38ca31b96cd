"""Who wants how many nodes of which rungs at most: models, their roles and their updates."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gke_inference.catalogue.rungs import Rung
from gke_inference.serving.updates import update_steps
from infra.plan.canary import with_canaries
from infra.plan.capacity import (
    checked_rungs,
    form_in,
    prefill_capacity,
    regions_using,
    standby,
)
from infra.stack import Form, Model, NodePools, Platform

_UPGRADED_IN_PLACE = ("on-demand", "spot")


@dataclass(frozen=True)
class Claim:
    """The replicas of one model, or of one role or kind of it, in one region."""

    who: str
    rungs: Mapping[int, Rung]
    """By their place in the stack; each may have to take all replicas."""
    replicas: int
    """At most, with the one that an update adds."""
    pools: NodePools | None
    """Pools made beforehand, which stop growing at their maximum."""
    zones: int
    """Zones of the region's cluster."""
    disk_zones: tuple[str, ...] | None = None
    """Zones with a disk of the model's weights, which it does not leave; None: it has no disk."""

    def nodes(self, at: int) -> int:
        """Return the nodes that it can ask of one rung at most."""
        rung = self.rungs[at]
        wanted = self.replicas * rung.hosts
        if self.pools is None:
            return wanted
        per_zone = rung.kind == "tpu" or rung.provisioning == "flex-start"
        zones = len(rung.reservation_zones or rung.zones) or self.zones
        times = zones if per_zone else 1  # limits of such pools are of each zone
        return max(min(wanted, self.pools.max_nodes * times), self.pools.min_nodes * times)


def claims(platform: Platform, region: str) -> Iterator[Claim]:
    """Yield what every model, canaries included, can ask for in a region."""
    every = with_canaries(platform)
    for name, model in every.models_in(region).items():
        yield from _of_model(every, name, model, region)


def _of_model(platform: Platform, name: str, model: Model, region: str) -> Iterator[Claim]:
    rungs = checked_rungs(platform, model.capacity, region)
    pools = platform.capacity[model.capacity].node_pools
    zones = len(platform.regions[region].zones)
    kept = None if model.disk is None else model.disk.zones
    least, most = model.replicas.min, model.replicas.max
    if form_in(platform, model, region) is Form.PAIRED:
        added, _ = update_steps(least + standby(model))
        for kind in ("tpu", "gpu"):  # either side may have to serve alone
            of_kind = {at: rung for at, rung in rungs.items() if rung.kind == kind}
            yield Claim(name, of_kind, most + added, pools, zones, kept)
    else:
        added, _ = update_steps(least)
        yield Claim(name, rungs, most + added, pools, zones, kept)
    capacity = prefill_capacity(model)
    if model.disaggregated is not None and capacity is not None:
        prefill = model.disaggregated.prefill.replicas
        used = checked_rungs(platform, capacity, region)
        own = platform.capacity[capacity].node_pools
        added, _ = update_steps(prefill.min)
        yield Claim(f"{name} prefill", used, prefill.max + added, own, zones, kept)


def upgrades(platform: Platform, region: str) -> Iterator[Rung]:
    """Yield the rungs whose pools GKE upgrades by adding a node first.

    Pools made beforehand and those of a cluster with auto-provisioning limits add none; what is
    reserved has no spare, a flex-start node is not upgraded, and a slice is made anew.
    """
    if platform.regions[region].auto_provisioning_limits is not None:
        return
    for name, capacity in platform.capacity.items():
        if capacity.node_pools is not None or region not in regions_using(platform, name):
            continue
        for rung in checked_rungs(platform, name, region).values():
            if rung.provisioning in _UPGRADED_IN_PLACE and not rung.is_slice:
                yield rung
