"""What a change costs: a month at minimum, expected and at maximum; by model; by million tokens."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from infra.cost.costing import served
from infra.cost.unit_costs import by_model, unit_costs
from infra.plan import Plan, resolve
from infra.reading.load import read
from planner.amount import NOTHING, Amount, AmountRange
from planner.choice.cost import FIELDS, HOURS_PER_MONTH, Bill, Line, bill
from planner.unit_cost.unit_cost import UnitCost


@dataclass(frozen=True)
class MonthlyCost:
    """Dollars a month of accelerator machines, at list prices."""

    minimum: Amount
    expected: Amount
    maximum: Amount


@dataclass(frozen=True)
class Row:
    """One model in one region; expected dollars a month."""

    model: str
    region: str
    before: Amount
    after: Amount


@dataclass(frozen=True)
class Unit:
    """What a million tokens, or a thousand pictures, of a model cost over its regions."""

    model: str
    unit: str
    before: AmountRange | None
    """Dollars; None where a part is not known, or the model is not there."""
    after: AmountRange | None
    is_new: bool
    is_gone: bool


@dataclass(frozen=True)
class Money:
    """A bill before and after; None for a side without the stack, or whose bill cannot be made."""

    before: MonthlyCost | None = None
    after: MonthlyCost | None = None
    rows: tuple[Row, ...] = ()
    """Those that change."""
    units: tuple[Unit, ...] = ()
    """Those that change."""
    note: str = ""
    """What could not be calculated, and why."""

    @property
    def lacks_price(self) -> bool:
        """Whether some figure lacks a price or a part of one."""
        return any(side is not None and side.maximum.at_least for side in (self.before, self.after))


def resolved(stack: str, root: Path) -> Plan:
    """Return a stack of a checkout, as this checkout's program reads and resolves it.

    Raises:
        infra.stack.problems.StackError: it has another format, or says something that cannot be.
    """
    return resolve(read(stack, root / "stacks"))


def money(before: Plan | None, after: Plan | None, note: str = "") -> Money:
    """Return the difference between two stacks at the prices of this checkout."""
    bills = [None if one is None else bill(served(one)) for one in (before, after)]
    units = [
        () if one is None or found is None else unit_costs(one, found)
        for one, found in zip((before, after), bills, strict=True)
    ]
    return Money(
        before=_monthly(bills[0]),
        after=_monthly(bills[1]),
        rows=tuple(_rows(*bills)),
        units=tuple(_units(*units)),
        note=note,
    )


def _monthly(found: Bill | None) -> MonthlyCost | None:
    if found is None:
        return None
    return MonthlyCost(*(found.total(field) * HOURS_PER_MONTH for field in FIELDS))


def _rows(old: Bill | None, new: Bill | None) -> list[Row]:
    before, after = (_by_place(each) for each in (old, new))
    found: list[Row] = []
    for key in dict.fromkeys([*before, *after]):
        was, now = before.get(key, NOTHING), after.get(key, NOTHING)
        if round(was.value, 2) != round(now.value, 2):
            found.append(Row(*key, was, now))
    return found


def _by_place(found: Bill | None) -> dict[tuple[str, str], Amount]:
    """Return the expected month by model and region."""
    lines: dict[tuple[str, str], list[Line]] = {}
    for line in found.lines if found else ():
        lines.setdefault((line.served.model, line.served.region), []).append(line)
    return {
        key: Bill(tuple(group)).total("expected") * HOURS_PER_MONTH for key, group in lines.items()
    }


def _units(old: tuple[UnitCost, ...], new: tuple[UnitCost, ...]) -> list[Unit]:
    sides = by_model(old), by_model(new)
    rows: list[Unit] = []
    for name in dict.fromkeys([*sides[0], *sides[1]]):
        was, now = (side.get(name) for side in sides)
        before, after = (each and each.usd for each in (was, now))
        if _said(before) != _said(after):
            unit = next(each.unit for each in (now, was) if each is not None)
            rows.append(Unit(name, unit, before, after, was is None, now is None))
    return rows


def _said(found: AmountRange | None) -> tuple[str, ...]:
    """Return what the figures look like; that one is known from below is no change."""
    if found is None:
        return ()
    return tuple(each.text("unit", "") for each in (found.value, found.low, found.high))


def money_as_json(found: Money) -> dict[str, Any]:
    """Return the difference as JSON: plain numbers, and beside them which ones lack a price."""
    return {
        "before": _monthly_as_json(found.before),
        "after": _monthly_as_json(found.after),
        "rows": [
            {
                "model": row.model,
                "region": row.region,
                "before": row.before.value,
                "after": row.after.value,
                "lower_bounds": _sides(row.before, row.after),
            }
            for row in found.rows
        ],
        "units": [
            {
                **asdict(unit),
                "before": None if unit.before is None else unit.before.as_json(),
                "after": None if unit.after is None else unit.after.as_json(),
                "lower_bounds": _sides(
                    *(None if each is None else each.value for each in (unit.before, unit.after))
                ),
            }
            for unit in found.units
        ],
        "is_lower_bound": found.lacks_price,
        "note": found.note,
    }


def _monthly_as_json(month: MonthlyCost | None) -> dict[str, Any] | None:
    if month is None:
        return None
    amounts: dict[str, Amount] = {field: getattr(month, field) for field in FIELDS}
    return {
        **{field: amount.value for field, amount in amounts.items()},
        "lower_bounds": [field for field, amount in amounts.items() if amount.at_least],
    }


def _sides(before: Amount | None, after: Amount | None) -> list[str]:
    """Return which of two amounts lack a price."""
    sides = {"before": before, "after": after}
    return [side for side, amount in sides.items() if amount is not None and amount.at_least]
