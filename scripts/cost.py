"""`gke-inference cost`: what the models of a stack cost, before anything is paid for."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import date
from typing import Annotated, Any

import typer
from rich.table import Table

from infra.costing import served
from infra.load import read
from infra.names import Names
from infra.problems import StackError
from infra.stack import Budget, Platform
from infra.unit_costs import DEFAULT_TRAFFIC, by_model, unit_costs
from planner.cost import HOURS_PER_MONTH, MEAN_SHARE, Bill, Line, bill
from planner.unit_cost import Traffic, UnitCost
from scripts.console import CommandError, console
from scripts.placements import placements
from scripts.unit_costs import print_unit_costs, unit_cost_as_json
from twin import clusters, daemon
from twin.gke.context import ClusterSpec
from twin.kube import KubeError
from twin.paths import TwinPaths

_FIELDS = ("minimum", "expected", "maximum")


def running(platform: Platform) -> float | None:
    """Return what the replicas of a stack on the twin cost an hour; None where it does not run."""
    paths = TwinPaths.default()
    if daemon.ports(paths) is None:
        return None
    own = {Names(platform).cluster(region) for region in platform.regions}
    if own.isdisjoint(ClusterSpec.load(folder).name for folder in clusters.folders(paths)):
        return None
    try:
        return sum(one.usd_per_hour or 0.0 for one in placements(paths) if one.cluster in own)
    except KubeError:
        return None


def _table(found: Bill) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    columns = ("MODEL", "REGION", "ROLE", "FIRST RUNG WITH A PRICE", "REPLICAS", "$/H A REPLICA",
               "MIN $/H", "EXPECTED $/H", "MAX $/H")  # fmt: skip
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number < 4 else "right")
    for line in found.lines:
        first = line.first
        one = line.served
        each = first.price.usd_per_hour if first and first.price else None
        sign = "≥ " if line.is_lower_bound else ""
        table.add_row(
            one.model,
            one.region,
            one.role,
            first.rung if first else "none",
            f"{one.minimum}/{line.expected_replicas}/{one.maximum}",
            "?" if each is None else f"{each:.2f}",
            *(_amount(getattr(line, field), sign) for field in _FIELDS),
        )
    return table


def _amount(value: float | None, sign: str) -> str:
    return "?" if value is None else f"{sign}{value:,.2f}"


def _as_json(
    found: Bill, costs: Sequence[UnitCost], now: float | None, today: date
) -> dict[str, Any]:
    return {
        "hours_per_month": HOURS_PER_MONTH,
        "now_usd_per_hour": now,
        "usd_per_hour": {field: found.total(field) for field in _FIELDS},
        "usd_per_month": {field: found.total(field) * HOURS_PER_MONTH for field in _FIELDS},
        "by_model": found.by("model"),
        "by_region": found.by("region"),
        "by_provisioning": found.by("provisioning"),
        "by_model_a_unit": {
            name: None if usd is None else asdict(usd) for name, usd in by_model(costs).items()
        },
        "lines": [
            {**_line(line), "unit_cost": unit_cost_as_json(each)}
            for line, each in zip(found.lines, costs, strict=True)
        ],
        "unpriced": found.unpriced,
        "outdated_prices": found.outdated(today),
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
        "usd_per_hour": {field: getattr(line, field) for field in _FIELDS},
        "is_lower_bound": line.is_lower_bound,
        "options": [asdict(option) for option in line.options],
    }


def _print_sums(found: Bill) -> None:
    sums = {field: found.total(field) for field in _FIELDS}
    month = {field: amount * HOURS_PER_MONTH for field, amount in sums.items()}
    sign = "at least " if any(line.is_lower_bound for line in found.lines) else ""
    console.print(
        f"Accelerator machines, list prices: {sign}${sums['minimum']:,.2f} an hour, expected "
        f"${sums['expected']:,.2f}, at most ${sums['maximum']:,.2f}; a month of {HOURS_PER_MONTH} "
        f"hours ${month['minimum']:,.0f}, ${month['expected']:,.0f}, ${month['maximum']:,.0f}"
    )
    for key in ("model", "region", "provisioning"):
        parts = [f"{name} ${each['expected']:,.2f}" for name, each in found.by(key).items()]
        console.print(f"expected an hour by {key}: {', '.join(parts)}")


def of_budget(budget: Budget, found: Bill) -> str:
    """Return the line that says how much of a budget the models of a stack take."""
    paid = (100 - budget.discount_percent) / 100
    shares = [
        f"{found.total(field) * HOURS_PER_MONTH * paid / budget.monthly_usd:.0%} {word}"
        for field, word in (
            ("minimum", "at minimum"),
            ("expected", "expected"),
            ("maximum", "at most"),
        )
    ]
    less = f", {budget.discount_percent} % off list prices" if budget.discount_percent else ""
    return f"budget: ${budget.monthly_usd:,} a month; the models take {', '.join(shares)}{less}"


def _print_notes(found: Bill, today: date) -> None:
    """Print the rungs without a price, and which prices are old."""
    for rung in found.unpriced:
        console.print(f"[dim]no price: {rung}[/dim]")
    for said, sources in found.outdated(today).items():
        console.print(f"[dim]{said} prices: {'; '.join(sources)}[/dim]")


def cost(
    stack: Annotated[str, typer.Option(help="Environment: a file stacks/Pulumi.NAME.yaml.")],
    mean_share: Annotated[
        float, typer.Option(help="Mean over peak of the traffic, for what is expected.")
    ] = MEAN_SHARE,
    given: Annotated[
        int, typer.Option("--input", help="Tokens of a prompt.")
    ] = DEFAULT_TRAFFIC.given,
    made: Annotated[
        int, typer.Option("--output", help="Tokens of an answer.")
    ] = DEFAULT_TRAFFIC.made,
    prefix_share: Annotated[
        float, typer.Option(help="Part of prompts that is common.")
    ] = DEFAULT_TRAFFIC.prefix_share,
    utilisation: Annotated[
        float, typer.Option(help="Part of a replica's most that is used.")
    ] = DEFAULT_TRAFFIC.utilisation,
    now: Annotated[bool, typer.Option(help="Also what runs on the twin at this moment.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="All of it as JSON.")] = False,
) -> None:
    """Show what the models of a stack cost an hour, a month, a million tokens, 1,000 pictures."""
    try:
        platform = read(stack)
        found = bill(served(platform), mean_share)
        traffic = Traffic(given, made, prefix_share, utilisation)
    except StackError as error:
        raise CommandError(str(error)) from None
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
    console.print(_table(found))
    _print_sums(found)
    if platform.budget is not None:
        console.print(of_budget(platform.budget, found))
    print_unit_costs(costs, traffic)
    if now:
        console.print(
            "now on the twin: "
            + ("it does not run" if at_work is None else f"${at_work:,.2f} an hour")
        )
    _print_notes(found, today)
