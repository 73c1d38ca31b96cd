"""`gke-inference cost`: what the models of a stack cost, estimated before deployment."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import date
from typing import Annotated, Any

import typer

from gke_inference.catalogue.input_error import InputError
from infra.cost.costing import served
from infra.cost.unit_costs import DEFAULT_TRAFFIC, by_model, unit_costs
from infra.stack import Budget
from planner.amount import Amount
from planner.choice.cost import FIELDS, HOURS_PER_MONTH, MEAN_SHARE, Bill, Line, bill
from planner.unit_cost.unit_cost import Traffic, UnitCost
from scripts.plan.unit_costs import print_unit_costs, unit_cost_as_json
from scripts.shared.running_cost import running
from scripts.terminal.console import CommandError, console
from scripts.terminal.options import JsonOption, StackOption, option_of, plan_of
from scripts.terminal.tables import Column, Listing, figure, print_table

_KEYS = ("model", "region", "provisioning")


def _table(found: Bill) -> Listing:
    table = Listing(
        "MODEL", "REGION", Column("ROLE", spare=2), Column("FIRST RUNG WITH A PRICE", spare=1),
        figure("REPLICAS", spare=2), figure("$/H A REPLICA", spare=2), figure("MIN $/H"),
        figure("EXPECTED $/H"), figure("MAX $/H"),
    )  # fmt: skip
    for line in found.lines:
        first = line.first
        one = line.served
        table.add_row(
            one.model,
            one.region,
            one.role,
            first.rung if first else "none",
            f"{one.minimum}/{line.expected_replicas}/{one.maximum}",
            f"{first.usd_per_hour:.2f}" if first else "?",
            *(_shown(getattr(line, field)) for field in FIELDS),
        )
    return table


def _shown(amount: Amount | None) -> str:
    return "?" if amount is None else f"{amount:,.2f}"


def _as_json(
    found: Bill, costs: Sequence[UnitCost], now: float | None, today: date
) -> dict[str, Any]:
    return {
        "hours_per_month": HOURS_PER_MONTH,
        "now_usd_per_hour": now,
        "usd_per_hour": _values(_sums(found)),
        "usd_per_month": {field: found.total(field).value * HOURS_PER_MONTH for field in FIELDS},
        "is_lower_bound": _bounds(_sums(found)),
        **{f"by_{key}": _parts(found, key) for key in _KEYS},
        "by_model_a_unit": {
            name: None
            if each.usd is None
            else {**each.usd.as_json(), "is_lower_bound": each.usd.value.at_least}
            for name, each in by_model(costs).items()
        },
        "lines": [
            {**_line(line), "unit_cost": unit_cost_as_json(each)}
            for line, each in zip(found.lines, costs, strict=True)
        ],
        "unpriced": found.unpriced,
        "outdated_prices": found.outdated(today),
    }


def _sums(found: Bill) -> dict[str, Amount | None]:
    return {field: found.total(field) for field in FIELDS}


def _values(amounts: Mapping[str, Amount | None]) -> dict[str, float | None]:
    return {field: None if each is None else each.value for field, each in amounts.items()}


def _bounds(amounts: Mapping[str, Amount | None]) -> dict[str, bool]:
    """Return which figures lack a price or a part of one."""
    return {field: each is None or each.at_least for field, each in amounts.items()}


def _parts(found: Bill, key: str) -> dict[str, dict[str, Any]]:
    return {
        name: {**_values(_sums(part)), "is_lower_bound": _bounds(_sums(part))}
        for name, part in found.by(key).items()
    }


def _line(line: Line) -> dict[str, Any]:
    one = line.served
    amounts: dict[str, Amount | None] = {field: getattr(line, field) for field in FIELDS}
    return {
        "model": one.model,
        "region": one.region,
        "role": one.role,
        "replicas": {
            "minimum": one.minimum,
            "expected": line.expected_replicas,
            "maximum": one.maximum,
        },
        "usd_per_hour": _values(amounts),
        "is_lower_bound": _bounds(amounts),
        "options": [asdict(option) for option in line.options],
    }


def _print_sums(found: Bill) -> None:
    hour = [f"{field} {found.total(field):$,.2f}" for field in FIELDS]
    month = [f"{found.total(field) * HOURS_PER_MONTH:$,.0f}" for field in FIELDS]
    console.print(
        f"Accelerator machines at list prices, per hour: {', '.join(hour)}; "
        f"per month of {HOURS_PER_MONTH} hours: {', '.join(month)}"
    )
    for key in _KEYS:
        parts = [f"{name} {each.total('expected'):$,.2f}" for name, each in found.by(key).items()]
        console.print(f"expected per hour by {key}: {', '.join(parts)}")


def of_budget(budget: Budget, found: Bill) -> str:
    """Return the line about the share of a budget that the models of a stack use."""
    paid = (100 - budget.discount_percent) / 100
    share = HOURS_PER_MONTH * paid / budget.monthly_usd
    shares = [
        f"{found.total(field) * share:.0%} {word}"
        for field, word in (
            ("minimum", "at minimum"),
            ("expected", "expected"),
            ("maximum", "at maximum"),
        )
    ]
    less = f", {budget.discount_percent} % off list prices" if budget.discount_percent else ""
    return f"budget: ${budget.monthly_usd:,} a month; the models use {', '.join(shares)}{less}"


def _print_notes(found: Bill, today: date) -> None:
    """Print the rungs without a price, and the outdated prices."""
    for rung in found.unpriced:
        console.print(f"[dim]no price: {rung}[/dim]")
    for age, sources in found.outdated(today).items():
        console.print(f"[dim]{age} prices: {'; '.join(sources)}[/dim]")


def cost(
    stack: StackOption,
    mean_share: Annotated[
        float, typer.Option(help="Mean traffic as a share of peak traffic, for the expected cost.")
    ] = MEAN_SHARE,
    given: Annotated[
        int, typer.Option("--input", help="Tokens per prompt.")
    ] = DEFAULT_TRAFFIC.given,
    made: Annotated[
        int, typer.Option("--output", help="Tokens per answer.")
    ] = DEFAULT_TRAFFIC.made,
    prefix_share: Annotated[
        float, typer.Option(help="Share of each prompt that is a common prefix.")
    ] = DEFAULT_TRAFFIC.prefix_share,
    utilisation: Annotated[
        float, typer.Option(help="Target utilization of a replica.")
    ] = DEFAULT_TRAFFIC.utilisation,
    now: Annotated[
        bool, typer.Option("--now", help="Also show the current cost on the twin.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the cost of a stack's models per hour, month, million tokens and 1,000 images."""
    plan = plan_of(stack)
    platform = plan.platform
    try:
        found = bill(served(plan), mean_share)
        traffic = Traffic(given, made, prefix_share, utilisation)
    except InputError as error:
        raise CommandError(option_of(error)) from None
    costs = unit_costs(plan, found, traffic)
    at_work = running(plan) if now else None
    today = date.today()
    if as_json:
        budget = None if platform.budget is None else platform.budget.monthly_usd
        report = _as_json(found, costs, at_work, today)
        print(json.dumps({**report, "budget_usd_per_month": budget}, indent=1))
        return
    print_table(_table(found))
    _print_sums(found)
    if platform.budget is not None:
        console.print(of_budget(platform.budget, found))
    print_unit_costs(costs, traffic)
    if now:
        console.print(
            "now on the twin: " + ("not running" if at_work is None else f"${at_work:,.2f} an hour")
        )
    _print_notes(found, today)
