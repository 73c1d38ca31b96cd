"""The cost of a stack as `gke-inference cost -o json` prints it.

Every total has its figures and, under `missing`, the excluded items without a published price.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import date
from typing import Any

from gke_inference.catalogue.calendar_mode import stamp
from gke_inference.intent.schedule import HOURS_OF_WEEK
from infra.estimate.commitment_costs import Commitment, Commitments
from infra.estimate.cost_parts import Part
from infra.estimate.stack_cost import StackCost
from infra.estimate.unit_costs import by_model
from planner.amount import HOURS_PER_MONTH, Amount, total
from planner.choice.cost import BILL_KEYS, FIELDS, Line
from planner.unit_cost.unit_cost import UnitCost
from scripts.plan.unit_costs import unit_cost_as_json


def cost_as_json(
    found: StackCost, costs: Sequence[UnitCost], now: float | None, today: date
) -> dict[str, Any]:
    """Return the cost of a stack.

    Args:
        found: Cost of the stack.
        costs: Unit cost of each line of its bill.
        now: Hourly cost on the twin, in dollars; None if nothing is running.
        today: Date for the age of prices.
    """
    return {
        "hours_per_month": HOURS_PER_MONTH,
        "now_usd_per_hour": now,
        "usd_per_hour": _totals(found.total),
        "usd_per_month": _totals(lambda field: found.total(field) * HOURS_PER_MONTH),
        "groups": {group.name: _totals(group.total) for group in found.groups},
        "parts": [_part(part) for part in found.parts],
        "reservations": [
            {
                "name": one.name,
                "region": one.region,
                "machines": one.machines,
                "start": stamp(one.period.start),
                "end": stamp(one.period.end),
                "usd": one.whole.value,
                "missing": _texts(one.whole),
            }
            for one in found.bookings
        ],
        "commitments": _commitments(found.commitments),
        **{
            f"by_{key}": {name: _totals(part.total) for name, part in found.bill.by(key).items()}
            for key in BILL_KEYS
        },
        "by_model_a_unit": {
            name: None
            if each.usd is None
            else {**each.usd.as_json(), "missing": _texts(each.usd.value)}
            for name, each in by_model(costs).items()
        },
        "lines": [
            {**_line(line), "unit_cost": unit_cost_as_json(each)}
            for line, each in zip(found.bill.lines, costs, strict=True)
        ],
        "assumed": asdict(found.usage),
        "outdated_prices": found.outdated(today),
    }


def _totals(of: Callable[[str], Amount]) -> dict[str, Any]:
    amounts = {field: of(field) for field in FIELDS}
    figures = {field: amount.value for field, amount in amounts.items()}
    unverified = [str(one) for one in total(amounts.values()).unverified]
    return {**figures, "missing": _texts(*amounts.values()), "unverified": unverified}


def _texts(*amounts: Amount) -> list[str]:
    return [str(one) for one in total(amounts).missing]


def _part(part: Part) -> dict[str, Any]:
    source, day = part.source or (None, None)
    return {
        "group": part.group,
        "what": part.what,
        "region": part.region,
        "quantity": part.quantity,
        "usd_per_hour": _totals(lambda field: getattr(part, field)),
        "source": source,
        "date": day,
    }


def _commitments(found: Commitments) -> dict[str, Any]:
    return {
        "usd_per_hour": {
            "on_demand": found.on_demand.value,
            "1_year": found.committed(1).value,
            "3_years": found.committed(3).value,
            "missing": [str(one) for one in found.missing],
        },
        "each": [_commitment(one) for one in found.each],
    }


def _commitment(one: Commitment) -> dict[str, Any]:
    amounts = (one.on_demand, one.by_years[1], one.by_years[3])
    paid = (None if amount.missing else amount.value for amount in amounts)
    return {
        "what": one.what,
        "region": one.region,
        "count": one.count,
        "usd_per_hour": dict(zip(("on_demand", "1_year", "3_years"), paid, strict=True)),
    }


def _line(line: Line) -> dict[str, Any]:
    one = line.served
    return {
        "model": one.model,
        "region": one.region,
        "role": one.role,
        "replicas": {
            "minimum": line.minimum_replicas,
            "expected": line.expected_replicas,
            "maximum": one.replicas.max,
        },
        "schedule": [
            {"minimum": least, "hours_per_week": round(share * HOURS_OF_WEEK, 2)}
            for least, share in one.shares
        ],
        "usd_per_hour": _totals(lambda field: getattr(line, field)),
        "options": [asdict(option) for option in line.options],
    }
