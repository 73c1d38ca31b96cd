"""What a change costs: a month at minimum, expected and at maximum; by model; by million tokens."""

from dataclasses import dataclass
from pathlib import Path

from infra.costing import served
from infra.load import read
from infra.stack import Platform
from infra.unit_costs import unit_costs
from planner.cost import FIELDS, HOURS_PER_MONTH, Bill, bill
from planner.plan import Estimate
from planner.unit_cost import UnitCost, blended


@dataclass(frozen=True)
class Amount:
    """Dollars a month of accelerator machines, at list prices."""

    minimum: float
    expected: float
    maximum: float
    lower_bounds: tuple[str, ...] = ()
    """Those that lack a price or a part of one."""


@dataclass(frozen=True)
class Row:
    """One model in one region; expected dollars a month."""

    model: str
    region: str
    before: float
    after: float


@dataclass(frozen=True)
class Unit:
    """What a million tokens, or a thousand pictures, of a model cost over its regions."""

    model: str
    unit: str
    before: Estimate | None
    """Dollars; None where a part is not known, or the model is not there."""
    after: Estimate | None
    is_new: bool
    is_gone: bool


@dataclass(frozen=True)
class Money:
    """A bill before and after; None for a side without the stack, or whose bill cannot be made."""

    before: Amount | None = None
    after: Amount | None = None
    rows: tuple[Row, ...] = ()
    """Those that change."""
    units: tuple[Unit, ...] = ()
    """Those that change."""
    is_lower_bound: bool = False
    """Whether some figure lacks a price or a part of one."""
    note: str = ""
    """What could not be reckoned, and why."""


def platform(stack: str, root: Path) -> Platform:
    """Return a stack of a checkout, as this checkout's program reads it.

    Raises:
        infra.problems.StackError: it has another format, or says something that cannot be.
    """
    return read(stack, root / "stacks")


def money(before: Platform | None, after: Platform | None, note: str = "") -> Money:
    """Return the difference between two stacks at the prices of this checkout."""
    bills = [None if one is None else bill(served(one)) for one in (before, after)]
    bounds = [bool(line.lower_bounds) for each in bills if each for line in each.lines]
    units = [
        () if one is None or found is None else unit_costs(one, found)
        for one, found in zip((before, after), bills, strict=True)
    ]
    return Money(
        before=_amount(bills[0]),
        after=_amount(bills[1]),
        rows=tuple(_rows(*bills)),
        units=tuple(_units(*units)),
        is_lower_bound=any(bounds),
        note=note,
    )


def _amount(found: Bill | None) -> Amount | None:
    if found is None:
        return None
    return Amount(
        *(found.total(field) * HOURS_PER_MONTH for field in FIELDS),
        lower_bounds=tuple(field for field in FIELDS if found.is_lower_bound(field)),
    )


def _rows(old: Bill | None, new: Bill | None) -> list[Row]:
    sides: list[dict[tuple[str, str], float]] = []
    for each in (old, new):
        sums: dict[tuple[str, str], float] = {}
        for line in each.lines if each else ():
            key = (line.served.model, line.served.region)
            sums[key] = sums.get(key, 0.0) + (line.expected or 0.0) * HOURS_PER_MONTH
        sides.append(sums)
    before, after = sides
    rows = [
        Row(*key, before.get(key, 0.0), after.get(key, 0.0))
        for key in dict.fromkeys([*before, *after])
    ]
    return [row for row in rows if round(row.before, 2) != round(row.after, 2)]


def _units(old: tuple[UnitCost, ...], new: tuple[UnitCost, ...]) -> list[Unit]:
    rows: list[Unit] = []
    for name in dict.fromkeys(one.model for one in (*old, *new)):
        mine = [[one for one in side if one.model == name] for side in (old, new)]
        before, after = (blended(side) for side in mine)
        if _cents(before) != _cents(after):
            unit = (mine[1] or mine[0])[0].speed.unit
            rows.append(Unit(name, unit, before, after, not mine[0], not mine[1]))
    return rows


def _cents(found: Estimate | None) -> tuple[float, ...]:
    return () if found is None else tuple(round(n, 2) for n in (found.value, found.low, found.high))
