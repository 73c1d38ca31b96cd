"""What a change costs: a month at minimum, expected and at maximum; by model; by million tokens."""

from dataclasses import dataclass
from pathlib import Path

from infra.cost.costing import served
from infra.cost.unit_costs import by_model, unit_costs
from infra.reading.load import read
from infra.stack import Platform
from planner.choice.cost import FIELDS, HOURS_PER_MONTH, Bill, Line, bill
from planner.choice.plan import Estimate
from planner.unit_cost.unit_cost import UnitCost, amount


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
    lower_bounds: tuple[str, ...] = ()
    """Those of `before` and `after` that lack a price or a part of one."""


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
    lower_bounds: tuple[str, ...] = ()
    """Those of `before` and `after` that lack a price or a part of one."""


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
        infra.stack.problems.StackError: it has another format, or says something that cannot be.
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
    before, after = (_by_place(each) for each in (old, new))
    nothing = (0.0, False)
    found: list[Row] = []
    for key in dict.fromkeys([*before, *after]):
        (was, was_bound), (now, now_bound) = before.get(key, nothing), after.get(key, nothing)
        if round(was, 2) != round(now, 2):
            found.append(Row(*key, was, now, _sides(was_bound, now_bound)))
    return found


def _by_place(found: Bill | None) -> dict[tuple[str, str], tuple[float, bool]]:
    """Return the expected month by model and region, and whether it lacks a price."""
    lines: dict[tuple[str, str], list[Line]] = {}
    for line in found.lines if found else ():
        lines.setdefault((line.served.model, line.served.region), []).append(line)
    each = {key: Bill(tuple(group)) for key, group in lines.items()}
    return {
        key: (one.total("expected") * HOURS_PER_MONTH, one.is_lower_bound("expected"))
        for key, one in each.items()
    }


def _sides(before: bool, after: bool) -> tuple[str, ...]:
    return ("before",) * before + ("after",) * after


def _units(old: tuple[UnitCost, ...], new: tuple[UnitCost, ...]) -> list[Unit]:
    sides = by_model(old), by_model(new)
    rows: list[Unit] = []
    for name in dict.fromkeys([*sides[0], *sides[1]]):
        was, now = (side.get(name) for side in sides)
        bounds = _sides(bool(was and was.is_lower_bound), bool(now and now.is_lower_bound))
        before, after = (each and each.usd for each in (was, now))
        if _said(before) != _said(after):
            unit = next(each.unit for each in (now, was) if each is not None)
            rows.append(Unit(name, unit, before, after, was is None, now is None, bounds))
    return rows


def _said(found: Estimate | None) -> tuple[str, ...]:
    return () if found is None else tuple(amount(n) for n in (found.value, found.low, found.high))
