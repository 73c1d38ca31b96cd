"""The maximum quota needs of a stack, before anything is created.

Any rung may have to run all replicas of its model, so each quota must cover the full need of its
rungs. Rungs of one model that use the same quota need the largest amount among them, not the sum.
Google's names and numbers are in `gke_inference.catalogue.quotas`.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from gke_inference.catalogue.cloud_run import gpu_quota
from gke_inference.catalogue.quotas import (
    Metric,
    boot_disk,
    disk_metric,
    metric,
    rung_metric,
    vcpus_of,
)
from gke_inference.catalogue.rungs import Rung
from infra.estimate.claims import Claim, claims, upgrades
from infra.estimate.quota_network import backend_requirements, network_requirements
from infra.estimate.quota_nodes import (
    QuotaRequirement,
    pipeline_requirements,
    system_requirements,
)
from infra.plan import Plan, RegionCapacity, RegionPlan
from infra.plan.cloud_run import RunService

__all__ = ["Need", "Part", "model_requirements", "needs", "upgrade_requirements"]

_KINDS: Final = ("accelerator", "machine", "disk", "address", "network")


@dataclass(frozen=True)
class Part:
    """One contribution to a need."""

    who: str
    """Name of the requester, such as a model, or `system nodes`."""
    amount: int


@dataclass(frozen=True)
class Need:
    """The maximum amount of one quota that a stack can request."""

    metric: Metric
    region: str | None
    """None for a project-wide quota."""
    kind: str
    """`accelerator`, `machine`, `disk`, `address` or `network`."""
    parts: tuple[Part, ...]
    accelerator: str | None = None
    """Accelerator name in stack terms, if the quota is for one accelerator."""
    provisioning: tuple[str, ...] = ()
    """Provisioning models that use the quota, in stack terms."""
    zones: tuple[str, ...] = ()
    """Zones that its VMs may be in."""
    most: int | None = None
    """Limit of node auto-provisioning, in the quota's unit."""

    @property
    def amount(self) -> int:
        """Maximum amount, in the quota's unit."""
        asked = sum(part.amount for part in self.parts)
        return asked if self.most is None else min(asked, self.most)

    @property
    def is_reserved(self) -> bool:
        """Whether only reservations use the quota. They consume it from their creation."""
        return self.provisioning == ("reservation",)

    @property
    def dimensions(self) -> dict[str, str]:
        """Dimensions that select the quota's value: the region and others."""
        where = {} if self.region is None else {"region": self.region}
        return {**where, **dict(self.metric.dimensions)}


def needs(plan: Plan) -> list[Need]:
    """Return the maximum need of each quota, by region in stack order.

    Project-wide quotas come last.
    """
    found = _Sums()
    for region in plan.regions.values():
        for claim in claims(region):
            found.add(model_requirements(region, claim))
        if plan.backends is not None:
            found.add(_run_requirements(plan.backends.services_in(region.name)))
        if plan.has_clusters:
            found.add(upgrade_requirements(region))
            found.add(system_requirements(region))
            found.add(pipeline_requirements(region))
    if plan.has_clusters:
        found.add(network_requirements(plan))
    else:
        found.add(backend_requirements(plan))
    order = [*plan.regions, None]
    made = [sums.need() for sums in found.by_key.values()]
    made = [need for need in made if need.amount > 0]
    return sorted(made, key=lambda need: (order.index(need.region), _KINDS.index(need.kind)))


@dataclass
class _Sum:
    """Running total of one quota."""

    first: QuotaRequirement
    parts: dict[str, int] = field(default_factory=dict[str, int])
    provisioning: dict[str, None] = field(default_factory=dict[str, None])
    zones: dict[str, None] = field(default_factory=dict[str, None])

    def need(self) -> Need:
        """Return the total as a need."""
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
    """Running totals by quota and region."""

    def __init__(self) -> None:
        self.by_key: dict[tuple[Metric, str | None], _Sum] = {}

    def add(self, requirements: Iterable[QuotaRequirement]) -> None:
        """Add requirements, summing those of the same requester."""
        for required in requirements:
            sums = self.by_key.setdefault((required.metric, required.region), _Sum(required))
            sums.parts[required.who] = sums.parts.get(required.who, 0) + required.amount
            sums.provisioning.update(dict.fromkeys(required.provisioning))
            sums.zones.update(dict.fromkeys(required.zones))


def model_requirements(region: RegionPlan, claim: Claim) -> Iterator[QuotaRequirement]:
    """Yield the quota needs of one model: for each quota, the maximum over its rungs."""
    largest: dict[tuple[Metric, str | None], QuotaRequirement] = {}
    for at in claim.rungs:
        nodes = claim.nodes(at)
        for required in _node_requirements(
            region, claim.capacity, at, nodes, claim.who, claim.disk_zones
        ):
            key = (required.metric, required.region)
            before = largest.get(key)
            if before is None:
                largest[key] = required
                continue
            both = required.joined(before)
            largest[key] = both if required.amount <= before.amount else both.of(required.amount)
    yield from largest.values()


def _run_requirements(services: Iterable[RunService]) -> Iterator[QuotaRequirement]:
    """Yield the GPUs of models on Cloud Run. Google compares the maximum of instances with it."""
    for each in services:
        model = each.settings
        counted, milli = gpu_quota(model.accelerator, is_zonal=model.zonal_redundancy)
        who, amount = f"{each.title} on Cloud Run", model.max_instances * milli
        yield QuotaRequirement(counted, each.region, "accelerator", who, amount)


def upgrade_requirements(
    region: RegionPlan, without: Collection[str] = ()
) -> Iterator[QuotaRequirement]:
    """Yield the surge nodes of node pool upgrades. Node pools are upgraded one after another.

    Args:
        region: Region.
        without: Names of models to leave out.
    """
    largest: dict[tuple[Metric, str | None], QuotaRequirement] = {}
    for capacity, at, nodes in upgrades(region, without):
        # in the same zones as the other nodes of its pool
        for required in _node_requirements(
            region, capacity, at, nodes, "more nodes in an upgrade", ()
        ):
            key = (required.metric, required.region)
            if key not in largest or largest[key].amount < required.amount:
                largest[key] = required
    yield from largest.values()


def _node_requirements(
    region: RegionPlan,
    capacity: RegionCapacity,
    at: int,
    nodes: int,
    who: str,
    disk_zones: tuple[str, ...] | None = None,
) -> Iterator[QuotaRequirement]:
    """Yield the quota needs of some nodes of a rung, in the zones of the disks if any."""
    rung, zones, where = capacity.rungs[at], capacity.zones[at], region.name
    if disk_zones is not None:
        zones = tuple(zone for zone in zones if zone in disk_zones)
    counted = rung_metric(rung.accelerator, rung.provisioning, rung.machine_type)
    is_elsewhere = rung.reservation_project is not None
    if counted is not None and not is_elsewhere and not rung.chips:
        vcpus = nodes * vcpus_of(rung.machine_type)
        yield QuotaRequirement(counted, where, "machine", who, vcpus, zones=zones)
        every, title = metric("CPUS_ALL_REGIONS"), f"{who} in {where}"
        yield QuotaRequirement(every, None, "machine", title, vcpus)
    elif counted is not None and not is_elsewhere:
        chips = nodes * rung.chips_per_node
        yield QuotaRequirement(
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
            yield QuotaRequirement(all_regions, None, "accelerator", f"{who} in {where}", chips)
    yield QuotaRequirement(metric("INSTANCES"), where, "machine", who, nodes, zones=zones)
    disk_type, gib = boot_disk(rung.machine_type)
    yield QuotaRequirement(disk_metric(disk_type), where, "disk", who, nodes * gib, zones=zones)


def _most(region: RegionPlan, rung: Rung) -> int | None:
    """Return the chip limit of node auto-provisioning, if the stack sets one."""
    limits = region.settings.auto_provisioning_limits or {}
    return limits.get(rung.gke_type)
