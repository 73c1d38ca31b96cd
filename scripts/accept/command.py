"""`gke-inference accept`: measures a deployed platform against its promises; writes a report."""

import os
import time
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.text import Text

from infra.plan import Plan
from scripts.accept.deployed import Deployed
from scripts.accept.row import Row, Verdict
from scripts.client_keys.documents import KeyProblem
from scripts.client_keys.permissions import names_of
from scripts.shared.google_cloud import CloudError
from scripts.shared.model_client import KEY_VARIABLE
from scripts.terminal.console import CommandError, console, step
from scripts.terminal.exit_codes import ExitCode
from scripts.terminal.options import StackOption, plan_of
from scripts.terminal.output import Output, OutputOption, print_data
from scripts.terminal.output_files import check_folder
from scripts.terminal.tables import Listing, print_table, prose
from scripts.terminal.where import OnOption, Where, say_where
from twin.host.paths import REPOSITORY, TwinPaths

_STYLES: Final = {Verdict.MET: "green", Verdict.NOT_MET: "red", Verdict.NOT_CHECKED: "yellow"}


def accept(
    stack: StackOption,
    on: OnOption = Where.TWIN,
    failover: Annotated[
        bool,
        typer.Option(
            "--failover",
            help="Also delete one replica of each model under requests, and wait for another.",
        ),
    ] = False,
    on_protected: Annotated[
        bool,
        typer.Option(
            "--on-protected", help="With --failover: allow it on a stack with `protection`."
        ),
    ] = False,
    inside: Annotated[
        bool,
        typer.Option(
            "--inside",
            help="Also look into a ready pod of each model with `kubectl exec`: user, mounts and"
            " variables.",
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Delete replicas without asking.")] = False,
    wait: Annotated[
        float,
        typer.Option(min=0, max=3600, help="Maximum wait for promises not met yet, in seconds."),
    ] = 60.0,
    by: Annotated[
        str, typer.Option(help="Name of the person who signs the report. Default: the Git user.")
    ] = "",
    out: Annotated[
        Path | None, typer.Option(help="Folder for the report. Default: build/STACK.")
    ] = None,
    allow_unseen: Annotated[
        bool, typer.Option("--allow-unseen", help="Exit 0 even if something cannot be seen.")
    ] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Check a deployed stack against its promises, and write a report to sign.

    Reads the platform and sends each model a few requests; only --failover changes anything.
    Exits 1 if a promise is not met or cannot be seen.
    """
    plan = plan_of(stack)
    _check(plan, stack, failover=failover, on_protected=on_protected, yes=yes, on_twin=on.is_twin)
    folder = TwinPaths.default().root.parent / stack if out is None else out
    check_folder("--out", folder)
    say_where(on, plan.platform.project)
    # HTTP clients and the watchers of a platform take seconds to load; `--help` needs neither
    from scripts.accept import report, signing  # noqa: PLC0415
    from scripts.shared import google_clients  # noqa: PLC0415

    begun = _now()
    try:
        with google_clients.plain_errors(), _keys(plan, stack, on_twin=on.is_twin):
            deployed = _deployed(plan, stack, on_twin=on.is_twin)
            until = time.monotonic() + wait
            is_silent = output.is_data
            groups = _checked(deployed, until, is_silent=is_silent)
            groups["Pods"] = _insides(deployed, until, is_wanted=inside, is_silent=is_silent)
            groups["Failover"] = _failover(
                deployed, is_wanted=failover, yes=yes, is_silent=is_silent
            )
    except CloudError as error:
        raise CommandError(f"{plan.platform.project}: {error}") from None
    except KeyProblem as error:
        raise CommandError(str(error)) from None
    done = report.Report(
        stack,
        deployed.place,
        by or signing.user(REPOSITORY),
        begun,
        _now(),
        signing.revision(REPOSITORY, stack),
        groups,
        allow_unseen,
    )
    page, _ = report.write(done, folder)
    if output.is_data:
        print_data(done.plain(), output)
    else:
        _show(done.rows)
        word = "not accepted" if done.failures else "accepted"
        console.print(f"Stack {stack} {deployed.place}: {word}; {done.summary}.", soft_wrap=True)
        console.print(f"Report   {page}", soft_wrap=True, markup=False)
    if done.failures:
        raise typer.Exit(ExitCode.CHECK_FAILED)


def _check(
    plan: Plan, stack: str, *, failover: bool, on_protected: bool, yes: bool, on_twin: bool
) -> None:
    """Check the combination of options, the confirmation of a failover, and the key."""
    for option, is_given in (("--on-protected", on_protected), ("--yes", yes)):
        if is_given and not failover:
            raise CommandError(f"{option}: must be omitted without --failover")
    if failover and plan.platform.protection and not on_protected:
        raise CommandError(
            f"--failover: must be given with --on-protected for stack {stack!r}, which sets"
            " 'protection': it deletes a replica of each model"
        )
    if plan.platform.needs_keys() and not on_twin and not os.environ.get(KEY_VARIABLE):
        how = "gke-inference clients keys create makes one"
        if plan.clients is None:
            how = "pulumi stack output apigee_keys --show-secrets prints those of its apps"
        raise CommandError(
            f"{KEY_VARIABLE}: must be set to a key for stack {stack!r}, which has clients: {how}"
        )


def _keys(plan: Plan, stack: str, *, on_twin: bool) -> AbstractContextManager[None]:
    """Use temporary client keys on the twin, unless the user has set one."""
    if not on_twin:
        return nullcontext()
    from scripts.client_keys.temporary import temporary_keys  # noqa: PLC0415 - as in the command

    return temporary_keys(stack, plan, names_of(plan, plan.platform.models))


def _deployed(plan: Plan, stack: str, *, on_twin: bool) -> Deployed:
    from scripts.accept import reach  # noqa: PLC0415 - as in the command

    if on_twin:
        return reach.on_twin(plan, stack, TwinPaths.default())
    return reach.in_google_cloud(plan, stack)


def _checked(deployed: Deployed, until: float, *, is_silent: bool) -> dict[str, list[Row]]:
    from scripts.accept.run import GROUPS, run  # noqa: PLC0415 - as in the command

    found: dict[str, list[Row]] = {}
    for title, checks in GROUPS.items():
        if is_silent:
            found[title] = list(run(deployed, checks, until))
            continue
        with step(f"Checking: {title}"):
            found[title] = list(run(deployed, checks, until))
    return found


def _insides(deployed: Deployed, until: float, *, is_wanted: bool, is_silent: bool) -> list[Row]:
    from scripts.accept.inside import insides, unasked  # noqa: PLC0415 - as in the command
    from scripts.accept.run import run  # noqa: PLC0415

    if not is_wanted:
        return list(unasked(deployed))
    with nullcontext() if is_silent else step("Checking: Pods"):
        return list(run(deployed, (insides,), until))


def _failover(deployed: Deployed, *, is_wanted: bool, yes: bool, is_silent: bool) -> list[Row]:
    from scripts.accept import failover  # noqa: PLC0415 - as in the command
    from scripts.accept.row import Subject  # noqa: PLC0415

    wanted = [f"{served.name} in {served.region}" for _, served in failover.deletable(deployed)]
    if not is_wanted:
        promise = "answered while one replica is replaced"
        return [Subject("failover", each, promise).skipped("needs --failover") for each in wanted]
    if not yes and not typer.confirm(f"Delete one replica of {', '.join(wanted)}?"):
        raise CommandError("--failover: must be confirmed; nothing was deleted")
    limit = failover.longest_start(deployed)
    if is_silent:
        return list(failover.failovers(deployed, limit))
    with step("Checking: Failover"):
        return list(failover.failovers(deployed, limit))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _show(rows: list[Row]) -> None:
    table = Listing("VERDICT", prose("CHECK"), prose("PREDICTION"), prose("MEASUREMENT"))
    for row in rows:
        word = "cannot be seen" if row.is_unseen else row.verdict.value
        table.add_row(
            Text(word, style=_STYLES[row.verdict]),
            f"{row.subject} {row.name}",
            row.predicted,
            row.measured,
        )
    print_table(table)
