"""`gke-inference coldstart`: the start time of each model on each rung, by stage."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Final

import typer

from infra.estimate.cold_starts import Option, Start, options, starts
from planner.choice.coldstart import DOUBLING_SECONDS, asks_at, checked, spare_replicas
from scripts.terminal.console import console
from scripts.terminal.options import StackOption, check_positive, plan_of
from scripts.terminal.output import Output, OutputOption, print_data
from scripts.terminal.tables import Listing, figure, print_table

_ADAPTER_MIB: Final = 256
"""Size of the adapter in the output: the time of another is in proportion."""


def _table(found: list[Start], minimum: dict[str, int], doubling: float) -> Listing:
    names = list(dict.fromkeys(stage.name for one in found for stage in one.start.stages))
    table = Listing(
        "MODEL", "REGION", "RUNG", *(figure(name.upper(), spare=3) for name in names),
        figure("TOTAL"), figure("RANGE", spare=2), figure("FIRST EVER", spare=2),
        figure("LEAD", spare=1), figure("SPARE", spare=1), figure("ASK AT", spare=1),
    )  # fmt: skip
    for one in found:
        seconds = {stage.name: f"{stage.seconds:.0f}" for stage in one.start.stages}
        late = " late" if one.is_late else ""
        table.add_row(
            one.model,
            one.region,
            one.rung,
            *(seconds.get(name, "") for name in names),
            f"{one.start.seconds:.0f} s{late}",
            f"{one.start.low:.0f}-{one.start.high:.0f}",
            f"{one.first.seconds:.0f}",
            f"{one.start.lead_seconds:.0f}",
            str(spare_replicas(minimum[one.model], one.start, doubling)),
            f"{asks_at(one.start, doubling):.0%}",
        )
    return table


def _summary(found: list[Start]) -> Iterator[str]:
    """Yield the fastest and the slowest start, and a warning for each rung that is too slow."""
    if not found:
        yield "no model of this stack has a start time"
        return
    ends = {"fastest": min(found, key=_seconds), "slowest": max(found, key=_seconds)}
    for word, one in ends.items():
        yield (
            f"{word} start: {one.start.seconds:.0f} s ({one.start.low:.0f} to"
            f" {one.start.high:.0f}), {one.model} on {one.rung} in {one.region}"
        )
    for one in found:
        if one.is_late and one.limit is not None:
            yield (
                f"warning: {one.model} on {one.rung} in {one.region} starts in"
                f" {one.start.seconds:.0f} s; slo.cold_start_s is {one.limit:.0f}"
            )
    yield ""


def _seconds(one: Start) -> float:
    return one.start.seconds


def _print_checked(output: Output) -> None:
    """Print published start times next to the estimates."""
    if output.is_data:
        print_data([{**asdict(each), "error": each.error} for each in checked()], output)
        return
    for each in checked():
        console.print(
            f"{each.what:<62} published {each.published:>5.0f} s  estimated "
            f"{each.calculated.seconds:>4.0f} s ({each.calculated.low:.0f} to "
            f"{each.calculated.high:.0f})  {each.error:+.0%}"
        )


def _print_options(found: list[Option], output: Output) -> None:
    """Print the ways to get image and weights to a node, with the start time of each."""
    if output.is_data:
        print_data([{**asdict(one), "seconds": one.start.seconds} for one in found], output)
        return
    table = Listing(
        "MODEL", "REGION", "RUNG", "SOURCE", figure("IMAGE"), figure("WEIGHTS"), figure("TOTAL"),
        figure("RANGE"), "",
    )  # fmt: skip
    for one in found:
        seconds = {stage.name: f"{stage.seconds:.0f}" for stage in one.start.stages}
        table.add_row(
            one.model,
            one.region,
            one.rung,
            one.what,
            seconds["image"],
            seconds["weights"],
            f"{one.start.seconds:.0f} s",
            f"{one.start.low:.0f}-{one.start.high:.0f}",
            f"not possible: {one.why_not}" if one.why_not else "used" if one.is_used else "",
        )
    print_table(table)


def coldstart(
    stack: StackOption = "local",
    doubling: Annotated[
        float, typer.Option(min=1, help="Shortest time in which traffic doubles, in seconds.")
    ] = DOUBLING_SECONDS,
    is_checked: Annotated[
        bool, typer.Option("--checked", help="Compare the estimates with published start times.")
    ] = False,
    has_options: Annotated[
        bool,
        typer.Option("--sources", help="Compare the ways to get image and weights to a node."),
    ] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show the start times of models, and the lead times and spare replicas they require."""
    check_positive("--doubling", doubling)
    if is_checked:
        _print_checked(output)
        return
    plan = plan_of(stack)
    if has_options:
        _print_options(options(plan), output)
        return
    found = starts(plan)
    minimum = {name: every[0].replicas.min for name, every in plan.models.items()}
    if output.is_data:
        facts = [
            {
                **asdict(one),
                "seconds": one.start.seconds,
                "first_seconds": one.first.seconds,
                "lead_seconds": one.start.lead_seconds,
                "asks_at": asks_at(one.start, doubling),
                "spare_replicas": spare_replicas(minimum[one.model], one.start, doubling),
                "is_late": one.is_late,
                "adapter_seconds": None
                if one.adapters is None
                else _ADAPTER_MIB / one.adapters.mib_per_second,
                "kept_seconds": one.kept_seconds if one.kept else None,
            }
            for one in found
        ]
        print_data(facts, output)
        return
    for text in _summary(found):
        console.print(text)
    print_table(_table(found, minimum, doubling))
    console.print(
        f"LEAD: seconds by which the autoscaler must act ahead. SPARE: replicas beyond the minimum "
        f"for traffic that doubles in {doubling:.0f} s. ASK AT: load at which to scale without any."
    )
    for model, region, source in dict.fromkeys(
        (one.model, one.region, one.adapters) for one in found if one.adapters is not None
    ):
        console.print(
            f"{model} in {region}: live adapters come from {source.place}, which all replicas "
            f"together read at {source.mib_per_second:,.0f} MiB/s or less: "
            f"{_ADAPTER_MIB / source.mib_per_second:.1f} s for {_ADAPTER_MIB} MiB"
        )
    for one in found:
        if one.kept:
            console.print(
                f"{one.model} on {one.rung} in {one.region}: replicas.buffer keeps nodes for "
                f"{one.kept}, on which a replica starts in {one.kept_seconds:.0f} s"
            )
