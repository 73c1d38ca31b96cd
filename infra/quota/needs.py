"""What a stack can ask of Google's quotas at most, before anything is created.

Every rung may have to take all replicas of its model, so each quota is asked for the whole of what
its rungs can ask; rungs of one model that draw on the same quota ask for the largest of them, not
for the sum. Names and numbers of Google's are in `gke_inference.catalogue.quotas`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from gke_inference.catalogue.accelerators import accelerator
from gke_inference.catalogue.quotas import (
    Metric,
    accelerator_metric,
    boot_disk,
    disk_metric,
    made_by_google,
    metric,
)
from gke_inference.catalogue.rungs import Rung
from infra.plan import Plan, RegionCapacity, RegionPlan
from infra.quota.claims import Claim, claims, upgrades
from infra.quota.network import backend_asks, network_asks
from infra.quota.nodes import system_asks
from infra.quota.parts import Ask
from infra.stack import Layer

__all__ = ["Need", "Part", "needs"]

_KINDS: Final = ("accelerator", "machine", "disk", "address", "network")


@dataclass(frozen=True)
class Part:
    """One reason to ask."""

    who: str
    """Such as a model, or `system nodes`."""
    amount: int


@dataclass(frozen=True)
class Need:
    """What a stack can ask of one quota at most."""

    metric: Metric
    region: str | None
    """None for a quota of the whole project."""
    kind: str
    """`accelerator`, `machine`, `disk`, `address` or `network`."""
    parts: tuple[Part, ...]
    accelerator: str | None = None
    """The user's word for it, where the quota is of one accelerator."""
    provisioning: tuple[str, ...] = ()
    """Ways to buy that draw on it, in the words of a stack."""
    zones: tuple[str, ...] = ()
    """Zones where its machines may stand."""
    most: int | None = None
    """Where node auto-provisioning stops, in the quota's unit."""

    @property
    def amount(self) -> int:
        """How much is asked for at most, in the quota's unit."""
        asked = sum(part.amount for part in self.parts)
        return asked if self.most is None else min(asked, self.most)

    @property
    def is_reserved(self) -> bool:
        """Whether only reservations draw on it: they hold their quota from when they are made."""
        return self.provisioning == ("reservation",)

    @property
    def dimensions(self) -> dict[str, str]:
        """What selects the quota's value: the region, and what else it has."""
        where = {} if self.region is None else {"region": self.region}
        return {**where, **dict(self.metric.dimensions)}


def needs(plan: Plan) -> list[Need]:
    """Return what a stack can ask of each quota, by region in the order of the stack.

    Quotas of the whole project come last.
    """
    found = _Sums()
    has_clusters = plan.platform.layer is not Layer.SERVING
    for region in plan.regions.values():
        for claim in claims(region):
            found.add(_claim_asks(region, claim))
        if has_clusters:
            found.add(_upgrade_asks(region))
            found.add(system_asks(region))
    if has_clusters:
        found.add(network_asks(plan))
    else:
        found.add(backend_asks(plan))
    order = [*plan.regions, None]
    made = [sums.need() for sums in found.by_key.values()]
    made = [need for need in made if need.amount > 0]
    return sorted(made, key=lambda need: (order.index(need.region), _KINDS.index(need.kind)))


@dataclass
class _Sum:
    """What is asked of one quota so far."""

    first: Ask
    parts: dict[str, int] = field(default_factory=dict[str, int])
    provisioning: dict[str, None] = field(default_factory=dict[str, None])
    zones: dict[str, None] = field(default_factory=dict[str, None])

    def need(self) -> Need:
        """Return it as a need."""
        return Need(
            accelerator=self.first.accelerator,
            kind=self.first.kind,
            metric=self.first.metric,
            most=self.first.most,
            parts=tuple(Part(who, amount) for who, amount in self.parts.items()),
            provisioning=tuple(self.provisioning),
            region=self.first.region,
            zones=tuple(sorted(self.zones)),
        )


class _Sums:
    """Asks, summed by quota and region."""

    def __init__(self) -> None:
        self.by_key: dict[tuple[Metric, str | None], _Sum] = {}

    def add(self, asks: Iterable[Ask]) -> None:
        """Add asks; those of one asker are added up."""
        for ask in asks:
            sums = self.by_key.setdefault((ask.metric, ask.region), _Sum(ask))
            sums.parts[ask.who] = sums.parts.get(ask.who, 0) + ask.amount
            sums.provisioning.update(dict.fromkeys(ask.provisioning))
            sums.zones.update(dict.fromkeys(ask.zones))


def _claim_asks(region: RegionPlan, claim: Claim) -> Iterator[Ask]:
    """Yield what one model asks: of each quota the most that any of its rungs does."""
    largest: dict[tuple[Metric, str | None], Ask] = {}
    for at in claim.rungs:
        nodes = claim.nodes(at)
        for ask in _node_asks(region, claim.capacity, at, nodes, claim.who, claim.disk_zones):
            key = (ask.metric, ask.region)
            before = largest.get(key)
            if before is None:
                largest[key] = ask
                continue
            both = ask.joined(before)
            largest[key] = both if ask.amount <= before.amount else both.of(ask.amount)
    yield from largest.values()


def _upgrade_asks(region: RegionPlan) -> Iterator[Ask]:
    """Yield the node that GKE adds to a pool while it upgrades it, one pool after another."""
    extra = made_by_google("surge_nodes_per_upgrade")
    largest: dict[tuple[Metric, str | None], Ask] = {}
    for capacity, at in upgrades(region):
        # it stands where the others of its pool do
        for ask in _node_asks(region, capacity, at, extra, "a node more in an upgrade", ()):
            key = (ask.metric, ask.region)
            if key not in largest or largest[key].amount < ask.amount:
                largest[key] = ask
    yield from largest.values()


def _node_asks(
    region: RegionPlan,
    capacity: RegionCapacity,
    at: int,
    nodes: int,
    who: str,
    disk_zones: tuple[str, ...] | None = None,
) -> Iterator[Ask]:
    """Yield what some nodes of a rung ask for; in the zones of the disks, where there are some."""
    rung, zones, where = capacity.rungs[at], capacity.zones[at], region.name
    if disk_zones is not None:
        zones = tuple(zone for zone in zones if zone in disk_zones)
    chips = nodes * rung.chips_per_node
    counted = accelerator_metric(rung.accelerator, rung.provisioning)
    is_elsewhere = rung.reservation_project is not None
    if counted is not None and not is_elsewhere:
        yield Ask(
            metric=counted,
            region=where,
            kind="accelerator",
            who=who,
            amount=chips,
            accelerator=rung.accelerator,
            provisioning=(rung.provisioning,),
            zones=zones,
            most=_most(region, rung),
        )
        if rung.kind == "gpu":
            all_regions = metric("GPUS_ALL_REGIONS")
            yield Ask(all_regions, None, "accelerator", f"{who} in {where}", chips)
    yield Ask(metric("INSTANCES"), where, "machine", who, nodes, zones=zones)
    disk_type, gib = boot_disk(rung.machine_type)
    yield Ask(disk_metric(disk_type), where, "disk", who, nodes * gib, zones=zones)


def _most(region: RegionPlan, rung: Rung) -> int | None:
    """Return the chips at which node auto-provisioning stops, where the stack says so."""
    limits = region.settings.auto_provisioning_limits or {}
    return limits.get(accelerator(rung.accelerator).gke_type)
