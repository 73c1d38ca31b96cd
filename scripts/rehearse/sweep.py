"""A sweep from the command line: bounds, progress, output, and the winner in the stack."""

import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import typer

from gke_inference.catalogue.input_error import InputError
from infra.plan import Plan
from infra.reading.edit import rewrite, rewritten
from infra.reading.load import STACKS, platform_of
from infra.stack.problems import StackError, unread
from scripts.rehearse.bounds import Bounds, check_names, read_bounds
from scripts.rehearse.describe import Described, describe
from scripts.rehearse.search import Found, Search
from scripts.rehearse.sweep_options import edited, groups_of, put
from scripts.rehearse.sweep_page import write_page
from scripts.rehearse.sweep_show import as_data, headlines, print_found
from scripts.rehearse.varied import same, varied
from scripts.rehearse.workers import workers
from scripts.shared.engine import Engine
from scripts.shared.preview_states import manifests, preview_states
from scripts.terminal.console import CommandError, console, errors, step
from scripts.terminal.exit_codes import ExitCode
from scripts.terminal.output import Output, print_data
from simulator.demand.arrivals import Traffic
from simulator.rehearsal.description import Platform
from twin.host.paths import TwinPaths

_PROGRESS_SECONDS = 5.0


@dataclass(frozen=True)
class Asked:
    """The options of a sweep."""

    stack: str
    bounds: Path | None
    write: bool
    ray: str | None
    page: Path | None
    output: Output


def bounds_of(file: Path | None, plan: Plan) -> Bounds:
    """Return the bounds of a file, or the usual ones.

    Raises:
        CommandError: The file cannot be read or breaks a rule.
    """
    if file is None:
        return Bounds()
    try:
        found = read_bounds(file)
        check_names(found, plan.platform.models, plan.platform.capacity)
    except InputError as error:
        raise CommandError(f"--bounds: {error}") from None
    except OSError as error:
        raise CommandError(f"--bounds: must be readable, got {file}: {unread(error)}") from None
    return found


def sweep(
    asked: Asked,
    bounds: Bounds,
    plan: Plan,
    described: Described,
    platform: Platform,
    traffic: Traffic,
) -> None:
    """Search, and report what was found.

    Args:
        asked: The options.
        bounds: What may be tried.
        plan: The stack.
        described: Its description.
        platform: The description with faults and calibration.
        traffic: The requests.

    Raises:
        CommandError: There is nothing to try, or the winner cannot be written.
        typer.Exit: No setting keeps the objectives.
    """
    document = platform_of(STACKS / f"Pulumi.{asked.stack}.yaml")
    names = [each.name for each in platform.models]
    groups = [each for each in groups_of(plan, document, bounds, names) if each.settings]
    if not groups:
        raise CommandError(
            "--bounds: must have a valid value other than the stack's for a model that is "
            "rehearsed; without --bounds, a model must have a latency objective (models.NAME.slo)"
        )
    most_failed = bounds.most_failed_percent / 100
    with workers(asked.ray) as where:
        title = where.title
        try:
            found = Search(
                platform,
                traffic,
                groups,
                lambda one, option: varied(one, plan, option),
                where,
                most_failed,
                bounds.finalists,
                _Progress(),
            ).run()
        except ValueError as error:
            raise CommandError(f"--traffic: {error}") from None
    _check(asked, plan, described, found)
    if asked.output.is_data:
        print_data(as_data(found, asked.stack, most_failed, title), asked.output)
    else:
        print_found(found, most_failed, title)
    if asked.page is not None:
        lines = list(headlines(found, most_failed, title))
        file = write_page(found, asked.stack, lines, asked.page)
        if not asked.output.is_data:
            console.print(f"Page {file}")
    is_kept = found.winner.excess(tuple(found.winner.models), most_failed) == 0
    if asked.write:
        _write(asked, found, is_kept=is_kept)
    if not is_kept:
        raise typer.Exit(ExitCode.CHECK_FAILED)


def _check(asked: Asked, plan: Plan, described: Described, found: Found) -> None:
    """Preview the stack with the winner, whose description must be the one that ran.

    Raises:
        CommandError: It is not, or the stack with the winner is invalid.
    """
    option = found.option
    if not option.settings:
        return
    try:
        text = rewritten(asked.stack, lambda each: put(each, option))
        other = edited(platform_of(STACKS / f"Pulumi.{asked.stack}.yaml"), option)
    except StackError as error:
        raise CommandError(f"the best settings together are invalid: {error}") from None
    title = "Previewing the stack with the best settings"
    with nullcontext() if asked.output.is_data else step(title):
        states = preview_states(Engine(TwinPaths.default()), asked.stack, text=text)
        again = describe(other, manifests(states), states)
    if not same(varied(described.platform, plan, option), again.platform):
        raise CommandError(
            f"the preview with {option.text} has other objects than the sweep assumed, so that its "
            "figures do not count; leave these settings out with --bounds"
        )


def _write(asked: Asked, found: Found, *, is_kept: bool) -> None:
    if not found.option.settings:
        errors.print(f"{asked.stack} is unchanged: its settings are the best ones")
        return
    if not is_kept:
        errors.print(f"{asked.stack} is unchanged: no setting keeps the objectives")
        return
    try:
        file = rewrite(asked.stack, lambda each: put(each, found.option))
    except StackError as error:
        raise CommandError(f"--write: {asked.stack} is unchanged: {error}") from None
    errors.print(f"wrote {found.option.text} to {file}")


class _Progress:
    """Prints a line on standard error now and then."""

    def __init__(self) -> None:
        self._begun = self._last = time.monotonic()

    def __call__(self, title: str, done: int, count: int) -> None:
        """Print where a round is."""
        now = time.monotonic()
        if now - self._last < _PROGRESS_SECONDS and 0 < done < count:
            return
        self._last = now
        errors.print(f"{title}: {done} of {count} rehearsals after {now - self._begun:.0f} s")
