"""`gke-inference preflight`: checks that each model can start on each rung and in its project."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from scripts.check.preflight_checks import Check, Line, lines
from scripts.check.preflight_cloud import check_project
from scripts.shared.kernel_programs import run_kernels
from scripts.terminal.console import CommandError, console, step
from scripts.terminal.exit_codes import ExitCode
from scripts.terminal.options import StackOption, plan_of
from scripts.terminal.output import Output, OutputOption, print_data
from scripts.terminal.tables import Listing, print_table, prose
from scripts.terminal.where import Where, say_where
from twin.host.paths import REPOSITORY
from twin.toolchain.python_environments import XLA

_CACHE = REPOSITORY / "build" / "kernels" / "compiled.json"
_MARKS = {True: ("yes", "green"), False: ("NO", "red"), None: ("-", "dim")}


def preflight(
    stack: StackOption,
    on: Annotated[
        Where | None,
        typer.Option(
            "--on",
            help="Check instead that the project has what the stack needs before its first `up`:"
            " in Google Cloud, with application default credentials, or the project of the same"
            " name on the twin, which starts if needed. Changes nothing.",
        ),
    ] = None,
    allow_unseen: Annotated[
        bool,
        typer.Option(
            "--allow-unseen",
            help="With --on: exit 0 even if Google refuses to show something.",
        ),
    ] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Check that every model starts on every rung: memory, attention kernel, block table.

    Exits 1 if one does not. With `--on`, exits 1 if something is missing in the project or
    cannot be seen.
    """
    if allow_unseen and on is None:
        raise CommandError("--allow-unseen: must be omitted without --on")
    plan = plan_of(stack)
    if on is not None:
        say_where(on, plan.platform.project)
        check_project(plan, stack, on_twin=on.is_twin, output=output, allow_unseen=allow_unseen)
        return
    found = list(lines(plan))
    if output.is_data:
        checked = compiled(found)
        print_data([_plain(one) for one in checked], output)
    else:
        with step(f"Checking {len(found)} rungs of {stack}"):
            checked = compiled(found)
        _show(checked)
    bad = failures(checked)
    if bad:
        raise typer.Exit(ExitCode.CHECK_FAILED)


def failures(checked: list[Line]) -> list[Line]:
    """Return the lines with a check that failed."""
    return [one for one in checked if False in (one.memory.ok, one.kernel.ok, one.table.ok)]


def compiled(found: list[Line], cache: Path = _CACHE) -> list[Line]:
    """Return the lines with the compiler's results, or with the command that installs a compiler.

    Args:
        found: Lines to compile.
        cache: File with earlier results, by releases and compiled programs.
    """
    asked = [one.call for one in found if one.call is not None]
    if not asked:
        return found
    if not XLA.is_installed:
        check = Check(None, f"not checked: {XLA.hint}")
        return [one if one.call is None else replace(one, kernel=check) for one in found]
    answers: list[dict[str, Any]] = json.loads(
        run_kernels("check", "--cache", str(cache), given=json.dumps(asked))
    )
    by_call = {
        json.dumps(call, sort_keys=True): answer
        for call, answer in zip(asked, answers, strict=True)
    }
    return [
        one
        if one.call is None
        else replace(one, kernel=_kernel(one.call, by_call[json.dumps(one.call, sort_keys=True)]))
        for one in found
    ]


def _kernel(call: dict[str, Any], answer: dict[str, Any]) -> Check:
    if answer["refusal"]:
        return Check(False, answer["refusal"])
    if call["kernel"] == "splash":
        return Check(True, f"attention compiles for {call['generation']}", "compiles")
    heads = f"{call['heads']}:{call['kv_heads']} heads of {call['head_size']}"
    says = f"paged attention compiles for {call['generation']}: {heads}"
    return Check(True, says, f"compiles: {heads}")


def _plain(one: Line) -> dict[str, Any]:
    return {key: value for key, value in asdict(one).items() if key != "call"}


def _cell(check: Check) -> Text:
    says = check.says if check.ok is False else check.brief or check.says
    return Text.assemble(_MARKS[check.ok], " ", says)


def _show(checked: list[Line]) -> None:
    table = Listing("MODEL", "RUNG", prose("MEMORY"), prose("KERNEL"), prose("BLOCKS", spare=1))
    for one in checked:
        table.add_row(one.model, one.rung, *map(_cell, (one.memory, one.kernel, one.table)))
    print_table(table)
    bad = failures(checked)
    unchecked = sum(None in (one.memory.ok, one.kernel.ok) for one in checked)
    console.print(
        f"{len(bad)} of {len(checked)} rungs fail a check." if bad else "All checks passed."
    )
    if unchecked:
        console.print(f"{unchecked} rungs have checks that could not run on this machine.")
