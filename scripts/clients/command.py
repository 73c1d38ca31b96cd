"""`gke-inference clients`: the keys and the usage of teams."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from infra.estimate.stack_cost import stack_cost
from infra.estimate.team_bills import Basis, Overhead, TeamBill, team_bill
from infra.plan import Plan
from planner.choice.cost import FIELDS as COST_FIELDS
from scripts.client_keys import documents
from scripts.client_keys.documents import Key, KeyProblem
from scripts.client_keys.reach import open_secret
from scripts.client_keys.secret import KeySecret
from scripts.clients import records
from scripts.clients.bill import (
    BILL_FIELDS,
    Period,
    bill_as_csv,
    bill_as_data,
    drawn,
    month_at,
    notes,
    print_bill,
    rows_of,
    tokens_of,
)
from scripts.clients.focus import focus_rows
from scripts.clients.reconcile import (
    LAG,
    Window,
    base_models,
    compare,
    counted,
    estimated,
    print_comparison,
    recorded,
)
from scripts.clients.usage import FIELDS, added_up, as_csv, as_data, csv_of, print_usage
from scripts.shared.google_cloud import CloudError
from scripts.terminal.console import CommandError, console, errors
from scripts.terminal.exit_codes import ExitCode
from scripts.terminal.options import StackOption, check_one, check_words
from scripts.terminal.output import Output, OutputOption, print_data
from scripts.terminal.output_files import check_folder, check_output, write_output
from scripts.terminal.tables import Listing, print_table
from scripts.terminal.where import OnOption, Where
from twin.cluster.monitoring.promql import QueryError
from twin.host.paths import TwinPaths

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="ID of the key, as `list` shows it.")]

clients = typer.Typer()
keys = typer.Typer()
clients.add_typer(keys, name="keys")


@clients.callback()
def clients_group() -> None:
    """Manage the teams that call a stack's models."""


@keys.callback()
def keys_group() -> None:
    """Create, list, rotate and revoke the teams' keys.

    Changes reach every gateway within five seconds.
    """


@keys.command()
def create(
    team: Annotated[str, typer.Argument(metavar="TEAM", help="Team of the stack's `clients`.")],
    stack: StackOption = "local",
    expires: Annotated[
        str | None, typer.Option(help="Lifetime, such as 90d or 12h. Default: until revoked.")
    ] = None,
    on: OnOption = Where.TWIN,
) -> None:
    """Create a key for a team and print it. The key is not stored and is never printed again."""
    with _secret(stack, cloud=on.is_cloud) as (secret, plan):
        known = {} if plan.clients is None else plan.clients.settings.teams
        check_one("TEAM", team, known)
        now = documents.utc_now()
        lifetime = None if expires is None else documents.lifetime_of("--expires", expires)
        key, text = documents.make(team, now, lifetime)
        secret.change(lambda before: documents.added(before, key, now))
    _show(key, text)


@keys.command("list")
def list_keys(
    stack: StackOption = "local", on: OnOption = Where.TWIN, output: OutputOption = Output.TABLE
) -> None:
    """List the keys: ID, team and dates."""
    with _secret(stack, cloud=on.is_cloud) as (secret, _):
        _, found = secret.read()
    now = documents.utc_now()
    if output.is_data:
        shown = [{**asdict(key), "valid": key.is_valid(now)} for key in found]
        rows = [{k: v for k, v in one.items() if k != "sha256"} for one in shown]
        print_data(rows, output)
        return
    print_keys(found, now)


def print_keys(found: Sequence[Key], now: datetime) -> None:
    """Print keys as a table, by team and age."""
    table = Listing("ID", "TEAM", "STATE", "CREATED", "EXPIRES")
    for key in sorted(found, key=lambda each: (each.team, each.created)):
        state = "valid" if key.is_valid(now) else "expired"
        table.add_row(key.id, key.team, state, key.created, key.expires or "never")
    print_table(table)


@keys.command()
def rotate(
    name: IdArgument,
    stack: StackOption = "local",
    overlap: Annotated[
        str, typer.Option(help="How long the old key stays valid, such as 7d.")
    ] = "7d",
    expires: Annotated[
        str | None, typer.Option(help="Lifetime of the new key. Default: that of the old key.")
    ] = None,
    on: OnOption = Where.TWIN,
) -> None:
    """Replace a key with a new one. The old key stays valid for a while."""
    with _secret(stack, cloud=on.is_cloud) as (secret, _):
        now = documents.utc_now()
        ends = now + documents.lifetime_of("--overlap", overlap)
        given = None if expires is None else documents.lifetime_of("--expires", expires)
        _, before = secret.read()
        old = documents.of_id(before, name)
        lifetime = old.lifetime if given is None else given
        key, text = documents.make(old.team, now, lifetime)

        def change(found: list[Key]) -> list[Key]:
            return documents.added(documents.expiring(found, name, ends), key, now)

        secret.change(change)
        ended = documents.of_id(documents.expiring(before, name, ends), name).expires
    _show(key, text)
    errors.print(f"{name} is valid until {ended}")


@keys.command()
def revoke(name: IdArgument, stack: StackOption = "local", on: OnOption = Where.TWIN) -> None:
    """Revoke a key: requests with it get 401 within five seconds."""
    with _secret(stack, cloud=on.is_cloud) as (secret, _):
        now = documents.utc_now()
        secret.change(lambda found: documents.revoked(found, name, now))
    console.print(f"{name} is revoked")


@clients.command()
def usage(
    stack: StackOption = "local",
    by: Annotated[
        list[str] | None,
        typer.Option(help=f"Group by {', '.join(FIELDS)}, or several of them. Default: team."),
    ] = None,
    since: Annotated[str, typer.Option(help="How far to look back, such as 30d or 12h.")] = "1d",
    out: Annotated[
        Path | None, typer.Option("--csv", help="Also write the result to this file as CSV.")
    ] = None,
    on: OnOption = Where.TWIN,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show the requests, tokens and cost of each team, from the usage records.

    Each request is one line in the logs of the gate. For more requests than this command can
    read, export these lines to BigQuery.
    """
    plan = records.plan_with_teams(stack)
    words = [word for given in by or ["team"] for word in given.split(",")]
    fields = check_words("--by", words, FIELDS)
    if out is not None:
        check_folder("--csv", out.parent)
    try:
        begin = documents.utc_now() - documents.lifetime_of("--since", since)
        rows = added_up(records.of_plan(plan, begin, cloud=on.is_cloud), fields)
    except (CloudError, KeyProblem) as error:
        raise CommandError(str(error)) from None
    if out is not None:
        out.write_text(as_csv(rows, fields), encoding="utf-8")
    if output.is_data:
        print_data(as_data(rows, fields), output)
    else:
        print_usage(rows, fields)


@clients.command()
def bill(
    stack: StackOption = "local",
    by: Annotated[
        list[str] | None,
        typer.Option(help=f"Group by {', '.join(BILL_FIELDS)}, or several. Default: team."),
    ] = None,
    month: Annotated[
        str | None, typer.Option(help="Calendar month (UTC), such as 2026-11.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="How far to look back, such as 30d or 12h. Default: 1d.")
    ] = None,
    basis: Annotated[
        Basis, typer.Option(help="What divides the accelerators: usage or reservation.")
    ] = Basis.USAGE,
    overhead: Annotated[
        Overhead,
        typer.Option(help="Idle capacity and the platform: separate lines, or shared by teams."),
    ] = Overhead.SEPARATE,
    cost: Annotated[
        str, typer.Option(help="Replicas of the cost: minimum, expected or maximum.")
    ] = "expected",
    invoice: Annotated[
        float | None,
        typer.Option(help="Divide this amount of US dollars instead of the computed cost."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--csv", help="Also write the result to this file as CSV.")
    ] = None,
    focus: Annotated[
        Path | None,
        typer.Option("--focus", help="Also write every charge to this file, as CSV in FOCUS 1.2."),
    ] = None,
    chart: Annotated[
        Path | None, typer.Option("--chart", help="Also draw the shares into this SVG file.")
    ] = None,
    on: OnOption = Where.TWIN,
    output: OutputOption = Output.TABLE,
) -> None:
    """Divide the cost of a stack among its teams, idle capacity and the platform.

    The bill is computed from the usage records and the prices of `gke-inference cost`. It is not
    Google's invoice: `--invoice` divides the amount of one in the same proportions.
    """
    plan = records.plan_with_teams(stack)
    words = [word for given in by or ["team"] for word in given.split(",")]
    fields = check_words("--by", words, BILL_FIELDS)
    check_one("--cost", cost, COST_FIELDS)
    if invoice is not None and not 0 < invoice < float("inf"):
        raise CommandError(f"--invoice: must be more than 0, got {invoice}")
    for option, file in (("--csv", out), ("--focus", focus), ("--chart", chart)):
        check_output(option, file)
    try:
        period = _period(month, since, focus)
        found = tokens_of(records.of_plan(plan, period.begin, cloud=on.is_cloud), period)
    except (CloudError, KeyProblem) as error:
        raise CommandError(str(error)) from None
    listed = team_bill(
        plan, stack_cost(plan), found, period.hours, basis=basis, overhead=overhead, field=cost
    )
    if invoice is not None and not listed.usd:
        raise CommandError("--invoice: cannot be divided, because the computed cost is $0")
    paid = listed if invoice is None else listed.scaled(invoice)
    rows = rows_of(paid, fields)
    if out is not None:
        write_output("--csv", out, lambda file: file.write_text(bill_as_csv(rows, fields)))
    if focus is not None:
        charges = csv_of(list(focus_rows(paid, listed, plan, period, basis)))
        write_output("--focus", focus, lambda file: file.write_text(charges))
    if chart is not None:
        write_output("--chart", chart, lambda file: drawn(paid, period, file))
    if output.is_data:
        print_data(bill_as_data(rows, fields), output)
        return
    print_bill(rows, fields)
    _print_bill_notes(paid, period, invoice)


def _period(month: str | None, since: str | None, focus: Path | None) -> Period:
    """Return the period of a bill.

    Raises:
        CommandError: The options contradict each other.
        KeyProblem: `--since` is no duration.
    """
    now = documents.utc_now().replace(microsecond=0)
    if month is not None and since is not None:
        raise CommandError("--since: must be omitted with --month")
    if month is not None:
        return month_at("--month", month, now)
    if focus is not None:
        raise CommandError("--month: is required with --focus, whose charges belong to a month")
    return Period(now - documents.lifetime_of("--since", since or "1d"), now)


def _print_bill_notes(bill: TeamBill, period: Period, invoice: float | None) -> None:
    whose = "computed from list prices" if invoice is None else "the amount of --invoice, divided"
    console.print(
        f"{period.begin:%Y-%m-%d %H:%M} to {period.end:%Y-%m-%d %H:%M} UTC, {period.hours:,.0f} h; "
        f"{whose}; not an invoice of Google",
        soft_wrap=True,
    )
    for text in notes(bill):
        console.print(f"[dim]{text}[/dim]")


@clients.command()
def reconcile(
    stack: StackOption = "local",
    since: Annotated[str, typer.Option(help="How far to look back, such as 30d or 12h.")] = "1h",
    on: OnOption = Where.TWIN,
    output: OutputOption = Output.TABLE,
) -> None:
    """Compare the tokens in the usage records with the engines' counters.

    Exits 1 if they differ by more than 0.1 percent, 100 tokens and 20 percent of the estimated
    tokens: those of requests whose clients left before the engine reported its usage. Requests
    that do not pass a gate, such as those of other programs in the cluster, appear only in the
    engines' counters.
    """
    plan = records.plan_with_teams(stack)
    from scripts.accept import reach  # noqa: PLC0415 - loads clients of everything

    try:
        now = documents.utc_now()
        window = Window(now - documents.lifetime_of("--since", since), now - LAG)
        if window.begin >= window.end:
            raise CommandError(f"--since: must be more than {LAG.seconds} s, got {since!r}")
        found = (
            reach.in_google_cloud(plan, stack)
            if on.is_cloud
            else reach.on_twin(plan, stack, TwinPaths.default())
        )
        counters = counted(found.clusters.values(), window, now)
        lines = list(records.of_plan(plan, window.begin, cloud=on.is_cloud))
        bases = base_models(plan)
        rows = compare(recorded(lines, bases, window), counters, estimated(lines, bases, window))
    except (CloudError, KeyProblem, QueryError) as error:
        raise CommandError(str(error)) from None
    if output.is_data:
        print_data([asdict(row) | {"agrees": row.agrees} for row in rows], output)
    else:
        print_comparison(rows)
    if not all(row.agrees for row in rows):
        raise typer.Exit(ExitCode.CHECK_FAILED)


@contextmanager
def _secret(stack: str, *, cloud: bool) -> Generator[tuple[KeySecret, Plan]]:
    """Open the secret of a stack's keys.

    Raises:
        CommandError: The stack has no teams, or the secret cannot be reached.
    """
    plan = records.plan_with_teams(stack)
    try:
        with open_secret(stack, plan, cloud=cloud) as secret:
            yield secret, plan
    except (CloudError, KeyProblem) as error:
        raise CommandError(str(error)) from None


def _show(key: Key, text: str) -> None:
    errors.print(f"Key of {key.team}, valid until {key.expires or 'it is revoked'}:")
    print(text)  # alone on standard output, for a pipe
