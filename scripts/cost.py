"""`gke-inference cost`: what the models of a stack cost, estimated before deployment."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import date
from typing import Annotated, Any

import typer

from infra.cost.costing import served
from infra.cost.unit_costs import DEFAULT_TRAFFIC, by_model, unit_costs
from infra.stack import Budget
from planner.choice.cost import FIELDS, HOURS_PER_MONTH, MEAN_SHARE, Bill, Line, bill
from planner.unit_cost.unit_cost import Traffic, UnitCost
from scripts.console import CommandError, console
from scripts.options import JsonOption, StackOption, stack_of
from scripts.running_cost import running
from scripts.tables import Column, Listing, figure, print_table
from scripts.unit_costs import print_unit_costs, unit_cost_as_json

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
        each = first.price if first else None
        table.add_row(
            one.model,
            one.region,
            one.role,
            first.rung if first else "none",
            f"{one.minimum}/{line.expected_replicas}/{one.maximum}",
            "?" if each is None else ("≥ " * each.is_lower_bound) + f"{each.usd_per_hour:.2f}",
            *(_amount(getattr(line, field), _sign(line, field)) for field in FIELDS),
        )
    return table


def _sign(found: Bill | Line, field: str) -> str:
    return "≥ " if found.is_lower_bound(field) else ""


def _amount(value: float | None, sign: str) -> str:
    return "?" if value is None else f"{sign}{value:,.2f}"


def _as_json(
    found: Bill, costs: Sequence[UnitCost], now: float | None, today: date
) -> dict[str, Any]:
    return {
        "hours_per_month": HOURS_PER_MONTH,
        "now_usd_per_hour": now,
        "usd_per_hour": _totals(found),
        "usd_per_month": {field: found.total(field) * HOURS_PER_MONTH for field in FIELDS},
        "is_lower_bound": _bounds(found),
        **{f"by_{key}": _parts(found, key) for key in _KEYS},
        "by_model_a_unit": {
            name: None
            if each.usd is None
            else {**asdict(each.usd), "is_lower_bound": each.is_lower_bound}
            for name, each in by_model(costs).items()
        },
        "lines": [
            {**_line(line), "unit_cost": unit_cost_as_json(each)}
            for line, each in zip(found.lines, costs, strict=True)
        ],
        "unpriced": found.unpriced,
        "outdated_prices": found.outdated(today),
    }


def _totals(found: Bill) -> dict[str, float]:
    return {field: found.total(field) for field in FIELDS}


def _bounds(found: Bill | Line) -> dict[str, bool]:
    return {field: found.is_lower_bound(field) for field in FIELDS}


def _parts(found: Bill, key: str) -> dict[str, dict[str, Any]]:
    return {
        name: {**_totals(part), "is_lower_bound": _bounds(part)}
        for name, part in found.by(key).items()
    }


def _line(line: Line) -> dict[str, Any]:
    one = line.served
    return {
        "model": one.model,
        "region": one.region,
        "role": one.role,
        "replicas": {
            "minimum": one.minimum,
            "expected": line.expected_replicas,
            "maximum": one.maximum,
        },
        "usd_per_hour": {field: getattr(line, field) for field in FIELDS},
        "is_lower_bound": _bounds(line),
        "options": [asdict(option) for option in line.options],
    }


def _print_sums(found: Bill) -> None:
    hour = [f"{field} {_sign(found, field)}${found.total(field):,.2f}" for field in FIELDS]
    month = [
        f"{_sign(found, field)}${found.total(field) * HOURS_PER_MONTH:,.0f}" for field in FIELDS
    ]
    console.print(
        f"Accelerator machines at list prices, per hour: {', '.join(hour)}; "
        f"per month of {HOURS_PER_MONTH} hours: {', '.join(month)}"
    )
    for key in _KEYS:
        parts = [
            f"{name} {_sign(each, 'expected')}${each.total('expected'):,.2f}"
            for name, each in found.by(key).items()
        ]
        console.print(f"expected per hour by {key}: {', '.join(parts)}")


def of_budget(budget: Budget, found: Bill) -> str:
    """Return the line about the share of a budget that the models of a stack use."""
    paid = (100 - budget.discount_percent) / 100
    shares = [
        _sign(found, field)
        + f"{found.total(field) * HOURS_PER_MONTH * paid / budget.monthly_usd:.0%} {word}"
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
    platform = stack_of(stack)
    try:
        found = bill(served(platform), mean_share)
        traffic = Traffic(given, made, prefix_share, utilisation)
    except ValueError as error:
        raise CommandError(f"--{error}") from None
    costs = unit_costs(platform, found, traffic)
    at_work = running(platform) if now else None
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
