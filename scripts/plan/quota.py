"""`gke-inference quota`: the quotas that a stack needs, and the requests to increase them."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from infra.estimate.quota_check import Limit, Standing, State, request, standings
from infra.estimate.quota_needs import Need, needs
from scripts.shared.quota_limits import Against, cloud_limits, twin_limits
from scripts.terminal.console import CommandError, console
from scripts.terminal.exit_codes import ExitCode
from scripts.terminal.options import StackOption, check_email, plan_of
from scripts.terminal.output import Output, OutputOption, print_data
from scripts.terminal.tables import Column, Listing, figure, print_table, prose

_WELL_KNOWN = "application_default_credentials.json"
_STYLES = {State.SHORT: "red", State.TIGHT: "yellow", State.UNKNOWN: "yellow"}


def has_credentials() -> bool:
    """Return whether this machine has application default credentials; sends no request.

    Raises:
        CommandError: The environment names a file that does not exist.
    """
    if named := os.environ.get("GOOGLE_APPLICATION_CREDENTIALS"):
        if not Path(named).is_file():
            raise CommandError(
                f"GOOGLE_APPLICATION_CREDENTIALS: must be a file, got {named!r}; --against twin"
                " needs no credentials"
            )
        return True
    folder = os.environ.get("CLOUDSDK_CONFIG")
    home = Path(folder) if folder else Path.home() / ".config" / "gcloud"
    return (home / _WELL_KNOWN).is_file()


def notes_on(found: list[Standing]) -> list[str]:
    """Return notes on the numbers."""
    said: list[str] = []
    if any(each.state is State.SHORT and "flex-start" in each.need.provisioning for each in found):
        said.append("flex-start uses standard quota in a project without any preemptible quota")
    if any(each.state is State.TIGHT for each in found):
        said.append(
            "tight: sufficient only if the usage is this stack's own; --beside-others adds it up"
        )
    if any(each.state is State.UNKNOWN for each in found):
        said.append("?: the project does not report this limit; look it up in the console")
    said.append("a quota permits machines but does not guarantee capacity")
    return said


def _for(need: Need) -> str:
    if need.accelerator is None:
        return need.metric.title
    return f"{need.accelerator} {', '.join(need.provisioning)}"


def _zones(need: Need) -> str:
    return " ".join(zone.rpartition("-")[2] for zone in need.zones)


def _amount(value: int) -> str:
    return f"{value:,}"


def _limit(limit: Limit | None) -> str:
    if limit is None:
        return "?"
    return "none" if limit.value is None else f"{limit.value:,}"


def _table(found: list[Standing], explain: bool) -> Listing:
    table = Listing(
        "REGION", Column("QUOTA", spare=1), prose("FOR"), Column("ZONES", spare=2), figure("NEEDS"),
        figure("LIMIT"), figure("IN USE", spare=2), figure("MISSING"), "",
    )  # fmt: skip
    for each in found:
        need, limit = each.need, each.limit
        table.add_row(
            need.region or "all regions",
            need.metric.label,
            _for(need),
            _zones(need),
            _amount(need.amount),
            _limit(limit),
            "" if limit is None or limit.used is None else _amount(limit.used),
            _amount(each.short_by) if each.short_by else "",
            each.state.value,
            style=_STYLES.get(each.state, "dim"),
            notes=_parts(need) if explain else (),
        )
    return table


def _parts(need: Need) -> list[str]:
    """Return the need of each part of the stack, one line each."""
    parts = [f"{_amount(part.amount)} {part.who}" for part in need.parts]
    stops = [] if need.most is None else [f"auto-provisioning stops at {_amount(need.most)}"]
    return [*parts, *stops]


def as_data(found: list[Standing], project: str, email: str | None) -> list[dict[str, Any]]:
    """Return the needs with their limits, and the request for each insufficient quota."""
    listed: list[dict[str, Any]] = []
    for each in found:
        need, limit = each.need, each.limit
        row: dict[str, Any] = {
            "region": need.region,
            "zones": list(need.zones),
            "quota": need.metric.name,
            "quota_id": need.metric.id,
            "dimensions": need.dimensions,
            "counts": need.metric.title,
            "unit": need.metric.unit,
            "kind": need.kind,
            "accelerator": need.accelerator,
            "provisioning": list(need.provisioning),
            "asks": need.amount,
            "parts": [{"who": part.who, "amount": part.amount} for part in need.parts],
            "auto_provisioning_stops_at": need.most,
            "limit": None if limit is None else limit.value,
            "is_limit_known": limit is not None,
            "in_use": None if limit is None else limit.used,
            "short_by": each.short_by,
            "state": each.state.value,
        }
        if each.state is State.SHORT:
            made = request(each, project, email)
            row["request"] = {"command": made.command, "post": made.url, "body": made.body}
        listed.append(row)
    return listed


def quota(
    stack: StackOption,
    against: Annotated[
        Against | None,
        typer.Option(
            help="Limits to check against. Default: the project's if application default"
            " credentials exist, otherwise the twin's."
        ),
    ] = None,
    scenario: Annotated[
        str,
        typer.Option(help="Use the limits of a scenario of the twin, such as quota-short."),
    ] = "",
    beside_others: Annotated[
        bool,
        typer.Option("--beside-others", help="Add the current usage, as that of other workloads."),
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show how much each part of the stack needs.")
    ] = False,
    email: Annotated[
        str | None, typer.Option(help="Contact address for the quota requests.")
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Check a stack against quota limits before deploying. Exits 1 if a quota is insufficient."""
    if scenario and against is Against.CLOUD:
        raise CommandError(
            "--scenario: must be omitted with --against cloud: scenarios are the twin's"
        )
    check_email("--email", email)
    plan = plan_of(stack)
    project = plan.platform.project
    if against is None:
        against = Against.CLOUD if has_credentials() and not scenario else Against.TWIN
    limits = cloud_limits(plan) if against is Against.CLOUD else twin_limits(scenario)
    found = standings(needs(plan), limits, beside_others=beside_others)
    notes = [*limits.notes, *notes_on(found)]
    if output.is_data:
        body = {
            "project": project,
            "against": against.value,
            "is_short": any(each.short_by for each in found),
            "needs": as_data(found, project, email),
            "notes": notes,
        }
        print_data(body, output)
    else:
        _print(found, project, against, notes, explain, email)
    if any(each.short_by for each in found):
        raise typer.Exit(ExitCode.CHECK_FAILED)


def _print(
    found: list[Standing],
    project: str,
    against: Against,
    notes: list[str],
    explain: bool,
    email: str | None,
) -> None:
    short = [each for each in found if each.short_by]
    console.print(_summary(found, project, against))
    for each in short:
        where = each.need.region or "all regions"
        console.print(
            f"insufficient in {where}: {each.need.metric.label}, {_amount(each.short_by)} more",
            markup=False,
        )
    console.print()
    print_table(_table(found, explain))
    if short:
        console.print("Request an increase:")
    for each in short:
        console.print(request(each, project, email).command, markup=False, soft_wrap=True)
    for note in notes:
        console.print(f"[dim]{note}[/dim]")


def _summary(found: list[Standing], project: str, against: Against) -> str:
    free = sum(each.state is State.UNLIMITED for each in found)
    if against is Against.TWIN and free == len(found):
        return (
            f"{len(found)} quotas, none checked: this twin has no limits. --against cloud checks"
            " those of the project, after `gcloud auth application-default login`"
        )
    whose = f"project {project}" if against is Against.CLOUD else "the twin"
    without = f", {free} without a limit" if free else ""
    short = sum(bool(each.short_by) for each in found)
    return f"{len(found)} quotas against the limits of {whose}: {short} insufficient{without}"
