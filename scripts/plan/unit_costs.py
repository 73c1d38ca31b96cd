"""The cost of a million tokens, or a thousand images or videos, for `gke-inference cost`."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from infra.estimate.unit_costs import by_model
from planner.amount import AmountRange
from planner.choice.question import Estimate
from planner.choice.served import BUFFER
from planner.unit_cost.unit_cost import TOKEN_UNITS, Traffic, UnitCost
from scripts.terminal.console import console
from scripts.terminal.tables import Column, Listing, figure, print_table


def unit_cost_as_json(one: UnitCost) -> dict[str, Any]:
    """Return a line's unit cost; if `usd` is null, `basis` has the reason."""
    price = one.usd_per_replica_hour
    further = {each.model: unit_cost_as_json(each) for each in one.of_further}
    return {
        "unit": one.speed.unit,
        "usd": None if one.usd is None else one.usd.as_json(),
        "usd_batch": None if one.usd_batch is None else one.usd_batch.as_json(),
        "missing": [] if price is None else [str(each) for each in price.missing],
        "rung": one.rung,
        "per_second_of_a_replica": _plain(one.speed.per_second),
        "keeps_promise": one.speed.keeps_promise,
        "utilization": one.utilisation,
        "basis": one.speed.basis,
        **({"further_models": further} if further else {}),
    }


def _plain(value: Estimate | None) -> dict[str, float] | None:
    return None if value is None else asdict(value)


def print_unit_costs(costs: Sequence[UnitCost], traffic: Traffic) -> None:
    """Print the unit cost of each line and model, and the assumptions."""
    table = Listing(
        "MODEL", "REGION", Column("ROLE", spare=2), Column("RUNG", spare=1),
        Column("UNIT", spare=2), figure("$ PER UNIT"), figure("80 % INTERVAL"),
        figure("PER SECOND", spare=1), figure("$ IN BATCH", spare=3),
    )  # fmt: skip
    every = [each for one in costs for each in (one, *one.of_further)]
    for one in every:
        if one.usd is None or one.speed.per_second is None:
            continue
        slow = "" if one.speed.keeps_promise else " (too slow)"
        table.add_row(
            one.model, one.region, one.role, one.rung + slow, one.speed.unit,
            f"{one.usd.value:unit}", "-".join(_ends(one.usd)),
            _rate(one.speed.per_second.value),
            "" if one.usd_batch is None else "-".join(_ends(one.usd_batch)),
        )  # fmt: skip
    if table.row_count:
        console.print()
        print_table(table)
        said = [
            f"{name} {each.usd.low:$unit}-{_ends(each.usd)[1]}"
            for name, each in by_model(costs).items()
            if each.usd is not None
        ]
        console.print(f"unit cost by model, over its regions: {', '.join(said)}")
        console.print(_assumed(costs, traffic))
    missing = dict.fromkeys(
        (one.model, one.speed.basis) for one in every if one.usd is None and one.role != BUFFER
    )
    for model, reason in missing:
        console.print(f"[dim]no unit cost: {model}: {reason}[/dim]")


def _ends(usd: AmountRange) -> tuple[str, str]:
    """Return the ends of an interval."""
    return f"{usd.low:unit}", f"{usd.high:unit}"


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2f}"


def _assumed(costs: Sequence[UnitCost], traffic: Traffic) -> str:
    """Return the assumptions that are not in the stack."""
    tokens = any(one.speed.unit in TOKEN_UNITS and one.usd is not None for one in costs)
    lengths = f"{traffic.given} tokens in ({traffic.prefix_share:.0%} shared), {traffic.made} out, "
    return (
        f"Assumed: {lengths if tokens else ''}replicas at {traffic.utilisation:.0%} of the "
        "throughput that the planner estimates within the SLO; the interval is the planner's "
        "(-o json has the basis). $ IN BATCH: the interval for batches, which "
        "keep replicas full and have no SLO"
    )
