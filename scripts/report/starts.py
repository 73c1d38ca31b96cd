"""How long replicas take to start, as the page draws it: one bar a model and rung."""

from collections.abc import Iterator
from dataclasses import dataclass

from infra.cost.costing import Start
from infra.plan import Plan
from planner.choice.coldstart import ColdStart, Stage, asks_at, spare_replicas

PHASES = {
    "machine": ("queue", "node"),
    "software": ("image", "pod", "initialise"),
    "model": ("weights", "compile", "warm-up"),
}
"""What a replica waits for, and the stages of each part."""


@dataclass(frozen=True)
class Bar:
    """The start of a replica on a rung, in all regions where it is the same."""

    model: str
    rung: str
    regions: tuple[str, ...]
    start: ColdStart
    parts: tuple[tuple[float, Stage], ...]
    """Stages in the order they are passed, each with the seconds at which it begins."""
    first_seconds: float
    """Of the very first one, with nothing compiled."""
    limit: float | None
    """The stack's promise, in seconds."""
    is_late: bool
    spare: int
    """Replicas beyond the minimum that meet traffic doubling in ten minutes."""
    asks_at: float
    """Share of what the replicas can do at which the next one is to be asked for."""


def bars(plan: Plan, found: list[Start]) -> tuple[Bar, ...]:
    """Return the bars of `infra.cost.costing.starts`, in the order of the stack."""
    alike: dict[tuple[str, str, ColdStart], list[Start]] = {}
    for one in found:
        alike.setdefault((one.model, one.rung, one.start), []).append(one)
    return tuple(_bar(plan, group) for group in alike.values())


def _bar(plan: Plan, group: list[Start]) -> Bar:
    one = group[0]
    minimum = plan.models[one.model][0].minimum
    return Bar(
        one.model,
        one.rung,
        tuple(each.region for each in group),
        one.start,
        tuple(_parts(one.start)),
        one.first.seconds,
        one.limit,
        one.is_late,
        spare_replicas(minimum, one.start),
        asks_at(one.start),
    )


def _parts(start: ColdStart) -> Iterator[tuple[float, Stage]]:
    # the queue for a machine comes before the machine, wherever the list of stages has it
    order = [name for names in PHASES.values() for name in names]
    begins = 0.0
    for stage in sorted(start.stages, key=lambda each: order.index(each.name)):
        yield begins, stage
        begins += stage.seconds
