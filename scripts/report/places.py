"""Regions with their clusters, and capacity ladders, for the page."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from gke_inference.catalogue.prices import rung_price
from gke_inference.catalogue.rungs import Rung
from infra.plan import Plan, RegionCapacity, RegionPlan, ServedModel
from planner.amount import Amount
from planner.choice.availability import availability, notes
from planner.choice.cost import amount_of
from planner.choice.served import Served

_HOSTS_IN_A_ROW = 4


@dataclass(frozen=True)
class Chips:
    """A drawing of a replica's chips: rows and columns of squares for each host."""

    kind: str
    """`tpu` or `gpu`."""
    hosts: int
    columns: int
    rows: int

    @property
    def hosts_in_a_row(self) -> int:
        """Number of hosts side by side."""
        return min(self.hosts, max(_HOSTS_IN_A_ROW, math.isqrt(2 * self.hosts)))

    @property
    def count(self) -> int:
        """Chips of all hosts."""
        return self.hosts * self.columns * self.rows


@dataclass(frozen=True)
class Offer:
    """A rung in one region."""

    region: str
    zones: tuple[str, ...] | None
    """Zones for machines of the ladder's models; None if the catalog does not list them."""
    price: Amount
    """Hourly price of a replica; unknown without a public price."""
    notes: tuple[str, ...]
    """Notes on availability."""


@dataclass(frozen=True)
class Step:
    """A rung of a ladder, over all regions that have it."""

    rung: Rung
    offers: tuple[Offer, ...]

    @property
    def title(self) -> str:
        """Title of the accelerator, or the machine type where there is none."""
        return self.rung.chip.title if self.rung.chips else self.rung.machine_type

    @property
    def risk(self) -> str:
        """Failure mode of its provisioning."""
        return availability(self.rung.provisioning)


@dataclass(frozen=True)
class Ladder:
    """A capacity, with its rungs in order and its models."""

    name: str
    steps: tuple[Step, ...]
    models: tuple[str, ...]
    moves_back: bool
    has_images: bool
    """Whether its nodes have preloaded engine images."""
    has_disks: bool
    """Whether disks with weights restrict all its models to the disks' zones."""


_ELSEWHERE: Final = ("managed elsewhere", "managed elsewhere")
"""System nodes and upgrades of a cluster that exists."""


@dataclass(frozen=True)
class Place:
    """A region and its cluster."""

    region: str
    cluster: str
    kind: str
    """Mode, spread and channel, or version of an existing cluster."""
    zones: tuple[str, ...]
    system_nodes: str
    maintenance: str
    models: tuple[tuple[Served, ...], ...]
    """Roles of every model, serving roles first."""


def picture(rung: Rung) -> Chips:
    """Return the drawing of a rung's chips: slices by topology, grouped by host."""
    each = rung.chips_per_node
    if rung.kind == "tpu" and rung.topology is not None and not rung.is_multi_host:
        first, *others = (int(side) for side in rung.topology.split("x"))
        return Chips("tpu", 1, math.prod(others), first)
    widest = 2 if rung.is_multi_host and each <= 4 else 4
    columns = next(width for width in (widest, 3, 2, 1) if each % width == 0)
    return Chips(rung.kind, rung.hosts, columns, each // columns)


def ladders(plan: Plan) -> tuple[Ladder, ...]:
    """Return every capacity of a stack, in its order."""
    return tuple(_ladder(plan, name) for name in plan.platform.capacity)


def _ladder(plan: Plan, name: str) -> Ladder:
    users = _users(plan, name)
    by_place: dict[int, tuple[Rung, list[Offer]]] = {}
    for region, at_region in plan.regions.items():
        capacity = at_region.capacity[name]
        here = [served for every in users.values() for served in every if served.region == region]
        for at, rung in capacity.rungs.items():
            offer = Offer(
                region,
                _zones(here, capacity, at),
                amount_of(rung_price(rung, region, allow_partial=True), rung.label, region),
                notes(rung.accelerator, region, rung.provisioning),
            )
            by_place.setdefault(at, (rung, []))[1].append(offer)
    settings = plan.platform.capacity[name]
    return Ladder(
        name,
        tuple(Step(rung, tuple(offers)) for _, (rung, offers) in sorted(by_place.items())),
        tuple(users),
        settings.move_back,
        settings.image_cache,
        bool(users) and all(every[0].settings.disk is not None for every in users.values()),
    )


def _users(plan: Plan, capacity: str) -> dict[str, list[ServedModel]]:
    """Return the models on a capacity by name, without canaries."""
    found: dict[str, list[ServedModel]] = {}
    for name, every in plan.models.items():
        roles = [role for served in every if served.version is None for role in served.roles]
        if own := [role for role in roles if role.capacity.name == capacity]:
            found[name] = own
    return found


def _zones(
    here: Iterable[ServedModel], capacity: RegionCapacity, at: int
) -> tuple[str, ...] | None:
    """Return the zones in which a model on a rung can run; None if they are not listed."""
    found = [served.zones(at) for served in here]
    if not found:
        return capacity.listed_zones[at] or None
    if any(zones is None for zones in found):
        return None
    return tuple(dict.fromkeys(zone for zones in found for zone in zones or ()))


def places(plan: Plan, lines: Iterable[Served]) -> tuple[Place, ...]:
    """Return every region of a stack, in its order.

    Args:
        plan: the stack.
        lines: of `infra.estimate.stack_cost.served`.
    """
    every = list(lines)
    return tuple(
        _place(plan, region, [one for one in every if one.region == region.name])
        for region in plan.regions.values()
    )


def _place(plan: Plan, region: RegionPlan, lines: list[Served]) -> Place:
    by_model: dict[str, list[Served]] = {}
    for one in lines:
        by_model.setdefault(one.model, []).append(one)
    kind, system_nodes, upgrades = (
        _of_cluster(region)
        if region.settings.existing.cluster is None
        else (f"{region.settings.mode.value}, exists, GKE {region.settings.version}", *_ELSEWHERE)
    )
    return Place(
        region.name,
        region.cluster_name,
        kind,
        region.settings.zones,
        system_nodes,
        upgrades,
        tuple(
            tuple(sorted(roles, key=lambda one: one.role != "serve")) for roles in by_model.values()
        ),
    )


def _of_cluster(region: RegionPlan) -> tuple[str, str, str]:
    """Return kind, system nodes and upgrades of a cluster that the stack creates."""
    settings = region.settings
    pool, window = settings.system_pool, region.cluster.maintenance
    channel = settings.release_channel.value
    return (
        f"{settings.mode.value}, {settings.cluster.value}, {channel} channel",
        "managed by GKE"
        if pool is None
        else f"{pool.min_nodes} to {pool.max_nodes} {pool.machine_type}",
        f"{', '.join(day.name[:3].capitalize() for day in window.days)} "
        f"from {window.start_hour:02}:00 UTC for {window.hours} h",
    )
