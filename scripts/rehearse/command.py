"""`gke-inference rehearse`: a day of the whole platform in virtual time."""

import math
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from gke_inference.catalogue.input_error import InputError
from infra.estimate.stack_cost import stack_cost
from infra.plan import Plan
from infra.reading.load import STACKS
from infra.stack import Layer
from scripts.rehearse.calibrated import calibrated
from scripts.rehearse.changes import with_changes
from scripts.rehearse.describe import Described, describe
from scripts.rehearse.faults import with_faults
from scripts.rehearse.files import from_file
from scripts.rehearse.page import check_page, write_page
from scripts.rehearse.rates import Rates, default_rates, team_shares
from scripts.rehearse.result import as_data, result_of
from scripts.rehearse.show import print_result
from scripts.rehearse.sweep import Asked, bounds_of, sweep
from scripts.shared.calibration_files import CalibrationOption
from scripts.shared.engine import Engine
from scripts.shared.preview_states import manifests, preview_states
from scripts.terminal.console import CommandError, console, errors, step
from scripts.terminal.exit_codes import ExitCode
from scripts.terminal.options import plan_of
from scripts.terminal.output import Output, OutputOption, print_data
from simulator.demand.arrivals import Traffic
from simulator.demand.default_day import default_day
from simulator.demand.pattern import Origin
from simulator.rehearsal.description import START
from simulator.rehearsal.engines import engines_of
from simulator.rehearsal.run import Rehearsal
from twin.drawings.timeline import clock
from twin.host.paths import TwinPaths

_PROGRESS_SECONDS = 5.0
_MOMENT = "%Y-%m-%dT%H:%M:%SZ"


def rehearse(
    stack: Annotated[
        str, typer.Argument(metavar="STACK", help="Stack: NAME of a file stacks/Pulumi.NAME.yaml.")
    ],
    hours: Annotated[float, typer.Option(help="Length of the default traffic, in hours.")] = 24.0,
    start: Annotated[
        str,
        typer.Option(
            metavar="TIME", help="Time at which the traffic starts, in UTC; matters to schedules."
        ),
    ] = START.strftime(_MOMENT),
    rate: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODEL=RATE",
            help="Mean requests per second of a model; repeat for more. Default: what keeps the"
            " expected replicas of `cost` busy in the busiest hour, within the limits of teams."
            " Models without one get none.",
        ),
    ] = None,
    fault: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SCENARIO[@HH:MM]",
            help="Scenario of the twin that happens, from a time after the start; repeat for more.",
        ),
    ] = None,
    events: Annotated[
        Path | None,
        typer.Option(help="YAML file with rollouts, canaries and upgrades, and their times."),
    ] = None,
    traffic: Annotated[
        Path | None,
        typer.Option(
            help="File or folder with traffic, in any form that `traffic` reads. Default:"
            " `rehearsal.traffic` of the stack."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed of the default traffic.")] = 0,
    calibration: CalibrationOption = None,
    page: Annotated[
        Path | None, typer.Option(help="Also write a page with charts to this folder.")
    ] = None,
    sweep_: Annotated[
        bool,
        typer.Option(
            "--sweep",
            help="Try other settings, and rank them by cost with the latency objectives kept.",
        ),
    ] = False,
    bounds: Annotated[
        Path | None, typer.Option(help="With --sweep: YAML file with the settings to try.")
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="With --sweep: write the best settings to the stack.")
    ] = False,
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="With --sweep: Ray cluster that runs the rehearsals, such as ray://HOST:10001, or"
            " `local`. Default: processes of this machine.",
        ),
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Rehearse a day of a stack in virtual time. Exits 1 if an objective or the budget breaks."""
    for option, value in (("--bounds", bounds), ("--write", write or None), ("--ray", ray)):
        if value is not None and not sweep_:
            raise CommandError(f"{option}: must be omitted without --sweep")
    plan = plan_of(stack)
    tried = bounds_of(bounds, plan)
    if plan.platform.layer is not Layer.ALL:
        raise CommandError(
            f"STACK: must have clusters and models, got {stack!r}, which has one of them"
        )
    if not 0 < hours <= 24 * 31:
        raise CommandError(f"--hours: must be above 0 and at most 744, got {hours:g}")
    begins = _moment(start)
    if page is not None:
        check_page(page)
    if traffic is not None and rate:
        raise CommandError("--rate: must be omitted with --traffic, which has the rates")
    if traffic is not None and not traffic.exists():
        raise CommandError(f"--traffic: must be readable, got {traffic}: no such file or directory")
    with _quiet("Reading the objects of the stack", is_quiet=output.is_data):
        states = preview_states(Engine(TwinPaths.default()), stack)
        described = describe(plan, manifests(states), states)
    timed = replace(described.platform, times=replace(described.platform.times, start=begins))
    platform = with_faults(timed, fault or [])
    if calibration is not None:
        platform = calibrated(platform, calibration, stack)
    if events is not None:
        platform = with_changes(platform, plan, events)
    option = "--traffic"
    own = plan.platform.rehearsal
    if traffic is None and own is not None and not rate:
        traffic, option = STACKS / own.traffic, "rehearsal.traffic"
    requests = (
        _traffic(plan, described, rate, hours, seed)
        if traffic is None
        else from_file(traffic, described, option)
    )
    if sweep_:
        asked = Asked(stack, bounds, write, ray, page, output)
        sweep(asked, tried, plan, described, platform, requests)
        return
    try:
        found = Rehearsal(platform, requests, engines_of(platform))
    except ValueError as error:
        raise CommandError(f"{option}: {error}") from None
    if not output.is_data:
        for name, why in described.left_out.items():
            console.print(f"{name} is left out: {why}", markup=False, soft_wrap=True)
    found.run(_Progress())
    result = result_of(found, stack_cost(plan), plan.platform.budget)
    if output.is_data:
        print_data(as_data(result, stack), output)
    else:
        print_result(result)
    if page is not None:
        file = write_page(result, stack, page)
        if not output.is_data:
            console.print(f"Page {file}")
    if result.broken:
        raise typer.Exit(ExitCode.CHECK_FAILED)


def _moment(text: str) -> datetime:
    """Return the time of `--start`."""
    try:
        return datetime.strptime(text, _MOMENT).replace(tzinfo=UTC)
    except ValueError:
        rule = "--start: must be a time in UTC such as 2026-01-05T08:00:00Z"
        raise CommandError(f"{rule}, got {text!r}") from None


def _quiet(title: str, *, is_quiet: bool) -> AbstractContextManager[None]:
    return nullcontext() if is_quiet else step(title)


class _Progress:
    """Prints a line on standard error now and then."""

    def __init__(self) -> None:
        self._begun = self._last = time.monotonic()

    def __call__(self, seconds: float, length: float, found: Rehearsal) -> None:
        """Print where a rehearsal is."""
        now = time.monotonic()
        if now - self._last < _PROGRESS_SECONDS:
            return
        self._last = now
        sent, failed = found.tally.sent, found.tally.failed
        replicas = sum(each.engine is not None for one in found.workloads for each in one.replicas)
        errors.print(
            f"{clock(seconds)} of {clock(length)} after {now - self._begun:.0f} s: {sent:,} sent, "
            f"{failed:,} failed, {replicas} replicas ready"
        )


def _traffic(
    plan: Plan, described: Described, given: list[str] | None, hours: float, seed: int
) -> Traffic:
    platform = described.platform
    if given:
        names = [model.name for model in platform.models]
        rates = Rates(_rates(given, names), team_shares(platform))
    else:
        rates = default_rates(plan, described)
    contexts = {name: most for name, most in described.contexts.items() if name in rates.by_model}
    try:
        return default_day(
            rates.by_model,
            seed,
            contexts=contexts,
            teams=tuple(platform.teams),
            teams_of=rates.teams_of,
            # evenly, and a session or a document stays where its client is, as its cache does
            regions={region.name: Origin(share=1) for region in platform.regions},
            length_hours=hours,
        )
    except (InputError, ValueError) as error:
        raise CommandError(f"--rate: {error}") from None


def _rates(given: list[str], names: list[str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for each in given:
        name, _, text = each.partition("=")
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not 0 < value < math.inf:
            raise CommandError(f"--rate: must be MODEL=RATE with a rate above 0, got {each!r}")
        if name not in names:
            raise CommandError(f"--rate: must be a model of {', '.join(names)}, got {name!r}")
        found[name] = value
    return found
