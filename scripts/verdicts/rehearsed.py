"""The rehearsed day of a stack before and after a change, for stacks that name a traffic file."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from infra.estimate.stack_cost import stack_cost
from infra.plan import Plan
from infra.stack import Layer
from scripts.rehearse.describe import describe
from scripts.rehearse.files import from_file
from scripts.rehearse.result import Result, result_of
from scripts.shared.preview_states import manifests
from scripts.shared.tool_setup import obtain_modules
from scripts.terminal.console import CommandError
from simulator.engine.compiled import PROGRAM
from simulator.rehearsal.accounts import PERCENTILE
from simulator.rehearsal.engines import engines_of
from simulator.rehearsal.run import Rehearsal
from twin.toolchain import ToolError
from twin.toolchain.registry import module_of

State = dict[str, Any]
_ALLOWED = 100 * (1 - PERCENTILE)
_ONE_AT_A_TIME = Lock()
"""Stacks are compared side by side, and the program is built once."""


@dataclass(frozen=True)
class Line:
    """One figure of the day."""

    name: str
    unit: str
    """`%`, `$` or empty for a number of requests."""
    before: float | None
    """None if the stack, or its model, is new."""
    after: float | None
    """None if it is gone."""
    limit: float | None = None
    """Largest value that is allowed."""

    @property
    def change(self) -> float:
        """The difference; a side without a figure counts as 0."""
        return (self.after or 0.0) - (self.before or 0.0)

    @property
    def fails(self) -> bool:
        """Whether the figure exceeds its limit after the change."""
        return self.limit is not None and self.after is not None and self.after > self.limit

    @property
    def is_newly_broken(self) -> bool:
        """Whether the change breaks the limit."""
        return self.fails and not (
            self.limit is not None and self.before is not None and self.before > self.limit
        )


@dataclass(frozen=True)
class Rehearsed:
    """The day before and after a change."""

    traffic: str = ""
    """File with the traffic; empty if the stack names none."""
    hours: float = 0.0
    lines: tuple[Line, ...] = ()
    problem: str = ""
    """Why the day after the change could not be rehearsed."""

    @property
    def broken(self) -> list[str]:
        """The limits that the change breaks, and why it could not be rehearsed."""
        found = [f"rehearsal: {self.problem}"] * bool(self.problem)
        return found + [
            f"rehearsal: {one.name}: must be at most {shown(one.limit, one.unit)}, "
            f"got {shown(one.after, one.unit)} (before {shown(one.before, one.unit)})"
            for one in self.lines
            if one.is_newly_broken
        ]


def shown(value: float | None, unit: str) -> str:
    """Return a figure as text."""
    if value is None:
        return "none"
    if unit == "$":
        return f"${value:,.2f}"
    return f"{value:,.2f} %" if unit == "%" else f"{value:,.0f}"


def rehearsed(
    before: tuple[Plan, Sequence[State]] | None, after: tuple[Plan, Sequence[State]], folder: Path
) -> Rehearsed:
    """Rehearse a stack before and after a change, under the traffic that it names afterwards.

    Args:
        before: The stack and its resources; None if it is new or could not be read.
        after: The stack and its resources.
        folder: Folder of the stack file, after the change.
    """
    own = after[0].platform.rehearsal
    if own is None or after[0].platform.layer is not Layer.ALL:
        return Rehearsed()
    with _ONE_AT_A_TIME, suppress(ToolError):  # without the program, engines run in Python
        obtain_modules([module_of(PROGRAM)])
    try:
        new = _day(after, folder / own.traffic)
    except CommandError as error:
        return Rehearsed(own.traffic, problem=" ".join(str(error).split()))
    old: Result | None = None
    if before is not None and before[0].platform.layer is Layer.ALL:
        try:
            old = _day(before, folder / own.traffic)
        except CommandError:
            old = None  # such as a model in the traffic that only the change adds
    return Rehearsed(own.traffic, new.hours, tuple(lines_of(old, new)))


def _day(side: tuple[Plan, Sequence[State]], file: Path) -> Result:
    plan, states = side
    described = describe(plan, manifests(list(states)), states)
    traffic = from_file(file, described, "rehearsal.traffic")
    try:
        found = Rehearsal(described.platform, traffic, engines_of(described.platform))
    except ValueError as error:
        raise CommandError(f"rehearsal.traffic: {error}") from None
    found.run()
    return result_of(found, stack_cost(plan), plan.platform.budget)


def lines_of(old: Result | None, new: Result) -> Iterator[Line]:
    """Yield the figures of two days: requests, late answers by objective, dollars, budget."""
    yield Line(
        "requests without an answer", "", None if old is None else old.totals.failed,
        new.totals.failed,
    )  # fmt: skip
    was, now = _late(old), _late(new)
    for name in dict.fromkeys([*was, *now]):
        yield Line(f"late, {name}", "%", was.get(name), now.get(name), _ALLOWED)
    yield Line("accelerators", "$", None if old is None else old.spent.total, new.spent.total)
    costs = [None if day is None else sum(day.fallback_usd.values()) for day in (old, new)]
    if any(costs):
        yield Line("fallbacks", "$", *costs)
    old_budget = None if old is None else old.budget
    if new.budget is not None:
        yield Line(
            "a month of such days", "$",
            None if old_budget is None else old_budget.monthly_usd,
            new.budget.monthly_usd, new.budget.limit_usd,
        )  # fmt: skip


def _late(day: Result | None) -> dict[str, float]:
    return {
        f"{one.model} {one.metric} of {one.target_ms:g} ms": 100 * one.late / one.answered
        if one.answered
        else 100.0
        for one in (() if day is None else day.objectives)
    }


def rehearsed_as_json(found: Rehearsed) -> dict[str, Any] | None:
    """Return the days as JSON; None for a stack without a traffic file."""
    if not found.traffic:
        return None
    return {
        "traffic": found.traffic,
        "hours": found.hours,
        "problem": found.problem,
        "lines": [{**asdict(one), "change": one.change, "fails": one.fails} for one in found.lines],
    }
