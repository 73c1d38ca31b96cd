"""Cost of a whole stack: accelerator VMs and everything else, per hour."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from typing import Final

from gke_inference.catalogue.platform_prices import machine_price
from gke_inference.catalogue.quotas import boot_disk
from gke_inference.catalogue.rungs import Rung
from gke_inference.intent.replicas import ReplicaRange
from infra.estimate.calendar_costs import Booking, bookings, idle_parts
from infra.estimate.commitment_costs import Commitments, commitments
from infra.estimate.cost_parts import (
    ACCELERATORS,
    CLUSTER,
    GROUPS,
    LABELLED,
    OBSERVABILITY,
    Nodes,
    Part,
    listed,
    part,
)
from infra.estimate.feature_costs import (
    backend_parts,
    batch_parts,
    client_parts,
    front_parts,
    guardrail_parts,
    network_parts,
    optimization_parts,
    personal_parts,
    pipeline_parts,
    queue_parts,
    run_parts,
    stream_parts,
)
from infra.estimate.storage_costs import project_parts, storage_parts
from infra.estimate.usage import DEFAULT_USAGE, Usage
from infra.plan import Plan, RegionPlan, ServedModel
from infra.stack import Covers, Form
from planner.amount import (
    HOURS_PER_MONTH,
    Amount,
    Count,
    Missing,
    always,
    total,
)
from planner.choice.cost import FIELDS, MEAN_SHARE, Bill, bill, outdated
from planner.choice.served import BUFFER, PREFILL, SERVE, STANDBY, Served

_MILLION: Final = 1e6


@dataclass(frozen=True)
class GroupCost:
    """One cost group of a stack, in US dollars per hour."""

    name: str
    """One of `infra.estimate.cost_parts.GROUPS`."""
    minimum: Amount
    expected: Amount
    maximum: Amount

    def total(self, field: str) -> Amount:
        """Return the `minimum`, `expected` or `maximum`, in US dollars per hour."""
        return {"minimum": self.minimum, "expected": self.expected, "maximum": self.maximum}[field]


@dataclass(frozen=True)
class StackCost:
    """Cost of a stack."""

    bill: Bill
    """Bill of the accelerator VMs."""
    parts: tuple[Part, ...]
    """Everything else, in the order of `GROUPS`."""
    commitments: Commitments
    usage: Usage
    """Usage assumptions."""
    bookings: tuple[Booking, ...] = ()
    """Reservations in calendar mode that the stack requests."""

    def total(self, field: str) -> Amount:
        """Return the total `minimum`, `expected` or `maximum`, in US dollars per hour."""
        return total((self.bill.total(field), *(getattr(part, field) for part in self.parts)))

    def counted(self, covers: Covers, field: str) -> Amount:
        """Return the `minimum`, `expected` or `maximum` that the budget covers, per hour."""
        if covers is Covers.PROJECT:
            return self.total(field)
        return total(group.total(field) for group in self.groups if group.name in LABELLED)

    @property
    def groups(self) -> tuple[GroupCost, ...]:
        """All cost groups."""
        return tuple(self._group(name) for name in GROUPS)

    @property
    def by_group(self) -> dict[str, GroupCost]:
        """Cost groups by name."""
        return {group.name: group for group in self.groups}

    @property
    def missing(self) -> tuple[Missing, ...]:
        """Items without a published price, excluded from all totals."""
        return total(self.total(field) for field in FIELDS).missing

    @property
    def unverified(self) -> tuple[Missing, ...]:
        """Items whose price is unverified, of the totals and of the commitments."""
        totals = total(self.total(field) for field in FIELDS)
        return (totals + self.commitments.every).unverified

    def outdated(self, today: date) -> dict[str, list[str]]:
        """Return price sources that are `stale` or `undated`, with their dates."""
        machines = self.bill.sources
        return outdated((*machines, *(part.source for part in self.parts if part.source)), today)

    def _group(self, name: str) -> GroupCost:
        mine = [part for part in self.parts if part.group == name]
        sums = [total(getattr(part, field) for part in mine) for field in FIELDS]
        if name == ACCELERATORS:
            sums = [
                self.bill.total(field) + of_parts
                for field, of_parts in zip(FIELDS, sums, strict=True)
            ]
        return GroupCost(name, *sums)


def stack_cost(
    plan: Plan, mean_share: float = MEAN_SHARE, usage: Usage = DEFAULT_USAGE
) -> StackCost:
    """Return the cost of a stack: for a platform without models, for a team only its models.

    Args:
        plan: The resolved stack.
        mean_share: Mean over peak traffic, as in `planner.choice.cost.bill`.
        usage: Usage assumptions.

    Raises:
        gke_inference.catalogue.input_error.InputError: The share is not above 0 and at most 1.
    """
    machines = bill(served(plan), mean_share)
    parts = _parts(plan, machines, mean_share, usage)
    ordered = tuple(sorted(parts, key=lambda part: GROUPS.index(part.group)))
    return StackCost(machines, ordered, commitments(plan, machines), usage, bookings(plan))


def _parts(plan: Plan, machines: Bill, mean_share: float, usage: Usage) -> Iterator[Part]:
    images = plan.images.settings if plan.has_clusters else None
    yield from idle_parts(plan, machines)
    if plan.has_clusters:
        yield from _cluster_parts(plan.regions.values(), mean_share)
    for name, region in plan.regions.items():
        system = _system_nodes(region, mean_share)
        nodes = [*([system] if system else []), *_accelerator_nodes(region, machines)]
        if plan.has_clusters:
            yield from network_parts(
                plan.front, name, nodes, usage, has_nat=plan.network.is_created
            )
            yield from client_parts(region)
            yield from guardrail_parts(plan.guardrails, region)
            yield from stream_parts(region, usage)
            yield from pipeline_parts(region, mean_share, usage)
            yield from queue_parts(region)
            yield from optimization_parts(region)
            yield from batch_parts(region)
            yield from personal_parts(region)
            yield from run_parts(plan.backends, region, mean_share)
        has_buckets = plan.has_clusters
        runs = () if plan.backends is None else plan.backends.services_in(name)
        yield from storage_parts(region, runs, nodes, usage, images, has_buckets=has_buckets)
        scrape = region.serving.scrape_seconds
        yield from _observability_parts(name, machines, nodes, usage, scrape)
    yield from backend_parts(plan.backends)
    if plan.has_clusters:
        yield from front_parts(plan.front, usage)
        yield from project_parts(plan.storage, plan.project.id)


def served(plan: Plan) -> list[Served]:
    """Return every model, including canaries, in each of its regions."""
    return [
        line
        for every in plan.models.values()
        for model in every
        for role in model.roles
        for line in _lines(role)
    ]


def _lines(one: ServedModel) -> Iterator[Served]:
    rungs = tuple(one.rungs.values())
    if one.form is Form.PAIRED:
        first, second = (tuple(half.values()) for half in one.pair)
        yield Served(one.name, one.region, first + second, one.replicas)
        if one.standby:
            yield Served(one.name, one.region, second, _always(one.standby), STANDBY)
    else:
        role = PREFILL if one.role == PREFILL else SERVE
        yield Served(one.name, one.region, rungs, one.replicas, role)
    if one.buffer:  # refilled after use, so it costs the same at any load
        kept = tuple(one.buffer_rungs.values())
        yield Served(one.name, one.region, kept, _always(one.buffer), BUFFER)


def _always(count: int) -> ReplicaRange:
    return ReplicaRange(min=count, max=count)


def _system_nodes(region: RegionPlan, mean_share: float) -> Nodes | None:
    """Return the nodes without accelerators, or None if the stack creates none.

    Args:
        region: A region of the plan.
        mean_share: Mean over peak traffic, as in `planner.choice.cost.bill`.
    """
    nodes = region.system_nodes
    if nodes is None:
        return None
    least, most = nodes.minimum, nodes.maximum
    count = Count(least, max(least, math.ceil(most * mean_share)), most)
    return Nodes(nodes.machine_type, nodes.disk_type, nodes.disk_gib, count)


def _accelerator_nodes(region: RegionPlan, machines: Bill) -> Iterator[Nodes]:
    """Yield the nodes of each bill line in a region, on the rung of its price."""
    for line in machines.lines:
        rung = line.rung
        if line.served.region != region.name or rung is None:
            continue
        kind, gib = _disk(rung)
        yield Nodes(rung.machine_type, kind, gib, line.replicas * rung.hosts)


def _disk(rung: Rung) -> tuple[str, int]:
    kind, gib = boot_disk(rung.machine_type)
    return rung.boot_disk_type or kind, gib


def _cluster_parts(regions: Iterable[RegionPlan], mean_share: float) -> Iterator[Part]:
    """Yield the management fee and system nodes of each cluster that the stack creates."""
    for region in regions:
        if region.settings.existing.cluster is not None:
            continue
        yield listed(CLUSTER, "management fee", region.name, "cluster-fee", always(1))
        nodes = _system_nodes(region, mean_share)
        if nodes is None:
            what = "what Autopilot takes for pods without accelerators, and beside accelerators"
            yield part(CLUSTER, what, region.name, None, always(1))
            continue
        machine = nodes.machine_type
        price = machine_price(machine, region.name)
        yield part(
            CLUSTER, f"system nodes {machine}", region.name, price, nodes.count, unit="nodes"
        )


def _observability_parts(
    region: str, machines: Bill, nodes: Iterable[Nodes], usage: Usage, scrape_seconds: int
) -> Iterator[Part]:
    """Yield the observability costs of a region.

    Args:
        region: Name of the region.
        machines: Bill of the stack, for its replicas.
        nodes: All nodes of the region.
        usage: Usage assumptions.
        scrape_seconds: Scrape interval.
    """
    every = sum((one.count for one in nodes), start=always(0))
    logs = every * usage.logs_gib_per_node
    yield listed(OBSERVABILITY, "Cloud Logging", region, "logging", logs, unit="GiB a month")
    here = (line.replicas for line in machines.lines if line.served.region == region)
    readings = HOURS_PER_MONTH * 3600 / scrape_seconds
    millions = sum(here, start=always(0)) * (usage.series_per_replica * readings / _MILLION)
    what, item, unit = "Managed Prometheus", "prometheus-samples", "million samples a month"
    yield listed(OBSERVABILITY, what, region, item, millions, unit=unit)
