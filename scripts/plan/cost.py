"""`gke-inference cost`: the cost of a stack, estimated before deployment."""

from datetime import date
from typing import Annotated

import typer

from gke_inference.catalogue.input_error import InputError
from infra.estimate.stack_cost import StackCost, stack_cost
from infra.estimate.unit_costs import DEFAULT_TRAFFIC, unit_costs
from infra.estimate.usage import DEFAULT_USAGE, NOT_DEDUCTED, Usage
from infra.stack import Budget
from planner.amount import missing_lines, unverified_lines
from planner.choice.cost import MEAN_SHARE
from planner.unit_cost.unit_cost import Traffic
from scripts.plan.cost_json import cost_as_json
from scripts.plan.cost_tables import (
    booking_lines,
    commitment_lines,
    commitment_table,
    group_table,
    headlines,
    line_table,
    machines_lines,
    schedule_lines,
)
from scripts.plan.filters import PLAN_OPTIONS
from scripts.plan.unit_costs import print_unit_costs
from scripts.shared.calibration_files import CalibrationOption, include_calibration
from scripts.shared.running_cost import running
from scripts.terminal.console import CommandError, console
from scripts.terminal.options import StackOption, option_of, plan_of
from scripts.terminal.output import Output, OutputOption, print_data
from scripts.terminal.tables import print_table


def _print_tables(cost: StackCost, budget: Budget | None) -> None:
    """Print the summary, the accelerators, the groups of the cost and its commitments."""
    for text in headlines(cost, budget):
        console.print(text)
    console.print()
    print_table(line_table(cost.bill))
    for text in (*schedule_lines(cost.bill), *machines_lines(cost.bill)):
        console.print(text)
    console.print()
    print_table(group_table(cost))
    for text in booking_lines(cost):
        console.print(text)
    committed = commitment_table(cost.commitments)
    if committed.row_count:
        console.print()
        print_table(committed)
    for text in commitment_lines(cost.commitments):
        console.print(text)


def _print_notes(cost: StackCost, today: date) -> None:
    """Print the assumptions, the items without a price, and the outdated prices."""
    console.print(f"Assumed: {cost.usage}")
    console.print(f"Not deducted: {NOT_DEDUCTED}")
    for text in (*missing_lines(cost.missing), *unverified_lines(cost.unverified)):
        console.print(f"[dim]{text}[/dim]")
    for age, sources in cost.outdated(today).items():
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
        float, typer.Option("--utilization", help="Target utilization of a replica.")
    ] = DEFAULT_TRAFFIC.utilisation,
    traffic_gib: Annotated[
        float,
        typer.Option(
            help="Response traffic per region and month, in GiB; request traffic counts the same."
        ),
    ] = DEFAULT_USAGE.traffic_gib,
    logs_gib_per_node: Annotated[
        float, typer.Option(help="Logs per month of each node and its pods, in GiB.")
    ] = DEFAULT_USAGE.logs_gib_per_node,
    series_per_replica: Annotated[
        int, typer.Option(help="Time series that each replica exports.")
    ] = DEFAULT_USAGE.series_per_replica,
    images_gib: Annotated[
        float | None,
        typer.Option(help="Container images in the repositories of each region, in GiB."),
    ] = DEFAULT_USAGE.images_gib,
    events_gib: Annotated[
        float | None,
        typer.Option(help="Messages per month of each stream and pipeline, in GiB."),
    ] = DEFAULT_USAGE.events_gib,
    now: Annotated[
        bool, typer.Option("--now", help="Also show the current cost on the twin.")
    ] = False,
    calibration: CalibrationOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show the cost of a stack per hour, month, million tokens and 1,000 images."""
    plan = plan_of(stack)
    platform = plan.platform
    include_calibration(calibration, stack)
    try:
        usage = Usage(traffic_gib, logs_gib_per_node, series_per_replica, images_gib, events_gib)
        found = stack_cost(plan, mean_share, usage)
        traffic = Traffic(given, made, prefix_share, utilisation)
    except InputError as error:
        raise CommandError(option_of(error, PLAN_OPTIONS)) from None
    costs = unit_costs(plan, found.bill, traffic)
    at_work = running(plan) if now else None
    today = date.today()
    if output.is_data:
        budget = None if platform.budget is None else platform.budget.monthly_usd
        report = cost_as_json(found, costs, at_work, today)
        print_data({**report, "budget_usd_per_month": budget}, output)
        return
    _print_tables(found, platform.budget)
    print_unit_costs(costs, traffic)
    if now:
        console.print(
            "now on the twin: " + ("not running" if at_work is None else f"${at_work:,.2f} an hour")
        )
    _print_notes(found, today)
