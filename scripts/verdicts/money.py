"""The cost of a change: monthly minimum, expected and maximum, by part, and per million tokens."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from infra.estimate.cost_parts import ACCELERATORS, Part
from infra.estimate.stack_cost import StackCost, stack_cost
from infra.estimate.unit_costs import by_model, unit_costs
from infra.plan import Plan, resolve
from infra.reading.load import read
from planner.amount import HOURS_PER_MONTH, Amount, AmountRange, Missing, total
from planner.choice.cost import FIELDS, Line
from planner.unit_cost.unit_cost import UnitCost


@dataclass(frozen=True)
class MonthlyCost:
    """Monthly cost of a stack at list prices, in dollars."""

    minimum: Amount
    expected: Amount
    maximum: Amount

    @property
    def missing(self) -> tuple[Missing, ...]:
        """Items without a published price, which none of the three includes."""
        return self.every.missing

    @property
    def every(self) -> Amount:
        """The three together, for the items that they exclude and their unverified prices."""
        return self.minimum + self.expected + self.maximum


@dataclass(frozen=True)
class Row:
    """Expected monthly cost of one model, or of one other group, in one region, in dollars."""

    group: str
    """One of `infra.estimate.cost_parts.GROUPS`."""
    model: str
    """Model, for accelerators; empty in every other group."""
    region: str
    """Region; empty for the whole project."""
    before: Amount
    after: Amount


@dataclass(frozen=True)
class Unit:
    """Cost of a million tokens or a thousand images of a model over its regions."""

    model: str
    unit: str
    before: AmountRange | None
    """Dollars; None if a part is unknown or the model does not exist."""
    after: AmountRange | None
    is_new: bool
    is_gone: bool


@dataclass(frozen=True)
class Money:
    """Cost before and after; None for a side without the stack or without a cost."""

    before: MonthlyCost | None = None
    after: MonthlyCost | None = None
    rows: tuple[Row, ...] = ()
    """Changed lines."""
    units: tuple[Unit, ...] = ()
    """Changed unit costs."""
    note: str = ""
    """Reasons for costs that could not be calculated."""
    lacks_price: bool = False
    """Whether a changed item has no published price, so that the real change is larger."""

    @property
    def missing(self) -> tuple[Missing, ...]:
        """Items without a published price on either side, which no figure includes."""
        return self.every.missing

    @property
    def every(self) -> Amount:
        """Both sides together, for the items that they exclude and their unverified prices."""
        return total(side.every for side in (self.before, self.after) if side is not None)


def resolved(stack: str, root: Path) -> Plan:
    """Return a stack of a checkout, as this checkout's program reads and resolves it.

    Raises:
        infra.stack.problems.StackError: The stack has another format or is invalid.
    """
    return resolve(read(stack, root / "stacks"))


def money(before: Plan | None, after: Plan | None, note: str = "") -> Money:
    """Return the difference between two stacks at the prices of this checkout."""
    costs = [None if one is None else stack_cost(one) for one in (before, after)]
    units = [
        () if one is None or found is None else unit_costs(one, found.bill)
        for one, found in zip((before, after), costs, strict=True)
    ]
    old, new = (_by_place(each) for each in costs)
    return Money(
        before=_monthly(costs[0]),
        after=_monthly(costs[1]),
        rows=tuple(_rows(old, new)),
        units=tuple(_units(*units)),
        note=note,
        lacks_price=_lacks_price(old, new),
    )


def _monthly(found: StackCost | None) -> MonthlyCost | None:
    if found is None:
        return None
    return MonthlyCost(*(found.total(field) * HOURS_PER_MONTH for field in FIELDS))


_Places = dict[tuple[str, str, str], tuple[Line | Part, ...]]
"""Cost of a stack by group, model and region."""


def _rows(old: _Places, new: _Places) -> list[Row]:
    found: list[Row] = []
    for key in dict.fromkeys([*old, *new]):
        was, now = (_expected(each.get(key, ())) for each in (old, new))
        if round(was.value, 2) != round(now.value, 2):
            found.append(Row(*key, was, now))
    return found


def _expected(paid: Iterable[Line | Part]) -> Amount:
    return total(each.expected for each in paid) * HOURS_PER_MONTH


def _lacks_price(old: _Places, new: _Places) -> bool:
    """Return whether a changed item has no published price on a side."""
    sides = (old, new)
    return any(
        each.minimum.missing or each.expected.missing or each.maximum.missing
        for key in dict.fromkeys([*old, *new])
        if old.get(key) != new.get(key)
        for side in sides
        for each in side.get(key, ())
        if not all(each in other.get(key, ()) for other in sides)
    )


def _by_place(found: StackCost | None) -> _Places:
    paid: dict[tuple[str, str, str], list[Line | Part]] = {}
    for line in found.bill.lines if found else ():
        key = (ACCELERATORS, line.served.model, line.served.region)
        paid.setdefault(key, []).append(line)
    for part in found.parts if found else ():
        paid.setdefault((part.group, "", part.region), []).append(part)
    return {key: tuple(group) for key, group in paid.items()}


def _units(old: tuple[UnitCost, ...], new: tuple[UnitCost, ...]) -> list[Unit]:
    sides = by_model(old), by_model(new)
    rows: list[Unit] = []
    for name in dict.fromkeys([*sides[0], *sides[1]]):
        was, now = (side.get(name) for side in sides)
        before, after = (None if each is None else each.usd for each in (was, now))
        if _said(before) != _said(after):
            unit = next(each.unit for each in (now, was) if each is not None)
            rows.append(Unit(name, unit, before, after, was is None, now is None))
    return rows


def _said(found: AmountRange | None) -> tuple[str, ...]:
    """Return the figures as text."""
    if found is None:
        return ()
    return tuple(f"{each:unit}" for each in (found.value, found.low, found.high))


def money_as_json(found: Money) -> dict[str, Any]:
    """Return the difference as JSON: figures, and under `missing` the items that they exclude."""
    return {
        "before": _monthly_as_json(found.before),
        "after": _monthly_as_json(found.after),
        "rows": [
            {**asdict(row), "before": row.before.value, "after": row.after.value}
            for row in found.rows
        ],
        "units": [
            {
                **asdict(unit),
                "before": None if unit.before is None else unit.before.as_json(),
                "after": None if unit.after is None else unit.after.as_json(),
            }
            for unit in found.units
        ],
        "lacks_price": found.lacks_price,
        "note": found.note,
    }


def _monthly_as_json(month: MonthlyCost | None) -> dict[str, Any] | None:
    if month is None:
        return None
    figures = {"minimum": month.minimum, "expected": month.expected, "maximum": month.maximum}
    return {
        **{field: amount.value for field, amount in figures.items()},
        "missing": [str(one) for one in month.missing],
    }
