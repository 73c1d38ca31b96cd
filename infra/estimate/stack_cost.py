"""Cost of a whole stack: accelerator VMs and everything else."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

from infra.estimate.committed import Commitments, commitments
from infra.estimate.cost_network import front_parts, network_parts
from infra.estimate.cost_nodes import (
    accelerator_nodes,
    cluster_parts,
    observability_parts,
    queue_parts,
    system_nodes,
)
from infra.estimate.cost_parts import ACCELERATORS, GROUPS, LABELLED, Part
from infra.estimate.cost_services import (
    backend_parts,
    batch_parts,
    client_parts,
    guardrail_parts,
    personal_parts,
    stream_parts,
)
from infra.estimate.cost_storage import project_parts, storage_parts
from infra.estimate.costing import served
from infra.estimate.usage import DEFAULT_USAGE, Usage
from infra.plan import Plan
from infra.stack import Covers, Layer
from planner.amount import Amount, Missing, total
from planner.choice.cost import FIELDS, MEAN_SHARE, Bill, bill, outdated


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
        if name == ACCELERATORS:
            return GroupCost(name, *(self.bill.total(field) for field in FIELDS))
        mine = [part for part in self.parts if part.group == name]
        return GroupCost(name, *(total(getattr(part, field) for part in mine) for field in FIELDS))


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
    return StackCost(machines, ordered, commitments(plan, machines), usage)


def _parts(plan: Plan, machines: Bill, mean_share: float, usage: Usage) -> Iterator[Part]:
    has_clusters = plan.platform.layer is not Layer.SERVING
    if has_clusters:
        yield from cluster_parts(plan, mean_share)
    for name, region in plan.regions.items():
        system = system_nodes(region, mean_share)
        nodes = [*([system] if system else []), *accelerator_nodes(region, machines)]
        if has_clusters:
            yield from network_parts(plan.platform, name, nodes, usage)
            yield from client_parts(plan.platform, name)
            yield from guardrail_parts(plan.platform, name)
            yield from stream_parts(plan.platform, name)
            yield from queue_parts(region)
            yield from batch_parts(plan.platform, name)
            yield from personal_parts(plan.platform, name)
        yield from storage_parts(plan, region, nodes, usage)
        scrape = plan.platform.monitoring.scrape_seconds
        yield from observability_parts(name, machines, nodes, usage, scrape)
    yield from backend_parts(plan.platform)
    if has_clusters:
        yield from front_parts(plan.platform, usage)
        yield from project_parts(plan)
