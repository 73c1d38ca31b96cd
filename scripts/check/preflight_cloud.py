"""`gke-inference preflight --on`: the prerequisites of a stack in its project."""

import socket
from collections import Counter
from dataclasses import asdict, replace
from typing import Final

import typer
from rich.text import Text

from infra.plan import Plan
from scripts.images.registry import Registry
from scripts.prerequisites.finding import Finding, NoRegistries, Project, State
from scripts.prerequisites.run import GROUPS, run
from scripts.shared.google_cloud import CloudError, ReadOnly
from scripts.shared.quota_limits import CloudLimits, TwinLimits, quota_services
from scripts.terminal.console import CommandError, console, step
from scripts.terminal.exit_codes import ExitCode
from scripts.terminal.output import Output, print_data
from scripts.terminal.tables import Listing, print_table, prose
from scripts.terminal.where import Where
from twin.host.paths import TwinPaths

_STYLES: Final = {
    State.MET: "green",
    State.MISSING: "red",
    State.UNSEEN: "yellow",
    State.LATER: "cyan",
    State.UNLIKELY: "yellow",
}


def check_project(
    plan: Plan, stack: str, *, on_twin: bool, output: Output, allow_unseen: bool
) -> None:
    """Check the prerequisites of a stack in its project, and print them.

    Args:
        plan: The stack, resolved.
        stack: Its name.
        on_twin: Whether to use a twin instead of Google; it is started if needed.
        output: Form of the result.
        allow_unseen: Whether requirements that cannot be seen may pass.

    Raises:
        CommandError: There are no credentials, or Google cannot be reached.
        typer.Exit: Something is missing, or cannot be seen.
    """
    # Google's clients take a second to load, and most commands do not need them.
    from scripts.shared import google_clients  # noqa: PLC0415

    try:
        project = _started_twin(plan, stack) if on_twin else _cloud_project(plan, stack)
        with google_clients.plain_errors():
            found = _with_progress(project, is_silent=output.is_data)
    except CloudError as error:
        raise CommandError(f"{plan.platform.project}: {error}") from None
    if output.is_data:
        print_data(_plain(project, found), output)
    else:
        _show(project, found, allow_unseen=allow_unseen)
    if any(is_failure(each, allow_unseen=allow_unseen) for each in found):
        raise typer.Exit(ExitCode.CHECK_FAILED)


def _cloud_project(plan: Plan, stack: str) -> Project:
    """Return the project in Google Cloud.

    Raises:
        CloudError: There are no credentials.
    """
    from scripts.shared import google_clients  # noqa: PLC0415 - as above

    cloud = google_clients.connect(plan.platform.project)
    reading = replace(cloud, session=ReadOnly(cloud.session))
    return Project(
        plan,
        stack,
        reading,
        Registry(),
        addresses_of,
        lambda: CloudLimits(reading, list(plan.regions), quota_services(plan)),
    )


def _started_twin(plan: Plan, stack: str) -> Project:
    """Return the project of the same name on the twin; start the twin if needed.

    Raises:
        twin.host.processes.ProcessError: The twin did not start.
        twin.toolchain.ToolError: A tool cannot be obtained.
    """
    # the twin's modules take a while to load, and a real project does not need them
    from scripts.shared.tool_setup import ensure_tools  # noqa: PLC0415
    from scripts.shared.twin_daemon import start_daemon  # noqa: PLC0415

    paths = TwinPaths.default()
    ensure_tools("engine")
    start_daemon(paths)
    return twin_project(plan, stack, paths)


def twin_project(plan: Plan, stack: str, paths: TwinPaths) -> Project:
    """Return the project of the same name on a twin."""
    from scripts.backend.twin_cloud import twin_cloud  # noqa: PLC0415 - as above
    from twin.world.image_names import is_pushed  # noqa: PLC0415 - as above

    cloud = twin_cloud(plan.platform.project, plan.platform.project_number, paths)
    reading = replace(cloud, session=ReadOnly(cloud.session))
    return Project(
        plan,
        stack,
        reading,
        NoRegistries(),
        _no_names,
        lambda: TwinLimits.of(paths),
        lambda image: is_pushed(image, paths, plan.platform.project),
        Where.TWIN,
    )


def _no_names(hostname: str) -> frozenset[str]:
    raise CloudError(f"the twin has no resolver for {hostname}")


def is_failure(finding: Finding, *, allow_unseen: bool) -> bool:
    """Return whether a finding fails the check."""
    return finding.is_problem and not (allow_unseen and finding.state is State.UNSEEN)


def addresses_of(hostname: str) -> frozenset[str]:
    """Return the IPv4 addresses to which this machine resolves a host name, possibly none."""
    try:
        answers = socket.getaddrinfo(hostname, None, socket.AF_INET, socket.SOCK_STREAM)
    except OSError:
        return frozenset()
    return frozenset(str(each[4][0]) for each in answers)


def _with_progress(project: Project, *, is_silent: bool) -> list[Finding]:
    found: list[Finding] = []
    for title, checks in GROUPS.items():
        if is_silent:
            found += run(project, checks)
            continue
        with step(f"Reading {title}"):
            found += run(project, checks)
    return found


def _plain(project: Project, found: list[Finding]) -> dict[str, object]:
    return {
        "project": project.id,
        "stack": project.stack,
        "is_ready": not any(each.is_problem for each in found),
        "findings": [asdict(each) for each in found],
    }


def _show(project: Project, found: list[Finding], *, allow_unseen: bool) -> None:
    table = Listing("STATE", prose("REQUIREMENT"), prose("FOUND"))
    for each in found:
        table.add_row(
            Text(each.state.value, style=_STYLES[each.state]),
            f"{each.subject} {each.name}",
            each.says,
            notes=[each.command] if each.command else [],
        )
    print_table(table)
    count = Counter(each.state for each in found if each.is_required)
    parts = [f"{count[state]} {state.value}" for state in State if count[state]]
    console.print(f"Stack {project.stack} in project {project.id}: {', '.join(parts)}.")
    if count[State.UNSEEN] and not allow_unseen:
        console.print(
            "Requirements that cannot be seen count as failed; --allow-unseen accepts them.",
            style="dim",
        )
