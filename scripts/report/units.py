"""What a million tokens or a thousand pictures of each model cost, as the page shows it."""

from collections.abc import Sequence
from dataclasses import dataclass

from infra.unit_costs import by_model
from planner.plan import Estimate
from planner.unit_cost import UnitCost


@dataclass(frozen=True)
class UnitRow:
    """One model over its regions."""

    unit: str
    usd: Estimate | None
    """Dollars a unit; None where `reason` says why."""
    is_lower_bound: bool
    is_slow: bool
    """Whether the promise on latency is kept by no batch somewhere."""
    reason: str


def unit_rows(costs: Sequence[UnitCost]) -> dict[str, UnitRow]:
    """Return the cost of a unit by model, in the order of the stack."""
    return {name: _row(usd, costs, name) for name, usd in by_model(costs).items()}


def _row(usd: Estimate | None, costs: Sequence[UnitCost], name: str) -> UnitRow:
    lines = [one for one in costs if one.model == name]
    unknown = [one.speed.basis for one in lines if one.usd is None]
    return UnitRow(
        lines[0].speed.unit,
        usd,
        any(one.is_lower_bound for one in lines),
        any(not one.speed.keeps_promise for one in lines),
        unknown[0] if unknown else "",
    )
