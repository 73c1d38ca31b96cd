"""Start times of replicas for the page, with one bar per model and rung."""

from collections.abc import Iterator
from dataclasses import dataclass

from infra.estimate.cold_starts import Start
from infra.plan import Plan
from planner.choice.coldstart import ColdStart, Stage, asks_at, spare_replicas

PHASES = {
    "machine": ("queue", "node"),
    "software": ("image", "pod", "initialise"),
    "model": ("weights", "compile", "warm-up"),
}
"""Phases of a start, with their stages."""


@dataclass(frozen=True)
class Bar:
    """Start of a replica on a rung, merged over regions with the same times."""

    model: str
    rung: str
    regions: tuple[str, ...]
    start: ColdStart
    parts: tuple[tuple[float, Stage], ...]
    """Stages in order, each with its start in seconds."""
    first_seconds: float
    """Time of the first start, with nothing compiled."""
    limit: float | None
    """SLO of the stack, in seconds."""
    is_late: bool
    spare: int
    """Spare replicas for traffic that doubles in ten minutes."""
    asks_at: float
    """Load at which the next replica must be requested, as a share of full load."""


def bars(plan: Plan, found: list[Start]) -> tuple[Bar, ...]:
    """Return the bars of `infra.estimate.cold_starts.starts`, in the order of the stack."""
    alike: dict[tuple[str, str, ColdStart], list[Start]] = {}
    for one in found:
        alike.setdefault((one.model, one.rung, one.start), []).append(one)
    return tuple(_bar(plan, group) for group in alike.values())


def _bar(plan: Plan, group: list[Start]) -> Bar:
    one = group[0]
    minimum = plan.models[one.model][0].replicas.min
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
