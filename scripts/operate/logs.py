"""`gke-inference logs`: the access logs of a stack's gateways, without prompts."""

import json
import re
import time
from typing import Annotated

import typer

from scripts.backend.backend import Wanted
from scripts.backend.choose import check_only_with_cloud, open_backend
from scripts.observe.access_log import Entry, trace_of
from scripts.terminal.console import CommandError, console
from scripts.terminal.output import Output, OutputOption, print_data
from scripts.terminal.where import OnOption, Where

_LOOK_SECONDS = 0.5
_CLOUD_LOOK_SECONDS = 5.0  # Cloud Logging allows 60 reads a minute in a project
_MINUTES = 60
_STATUS = re.compile("[1-5]([0-9][0-9]|xx)")
_TRACE = re.compile("[0-9a-f]{1,32}")


def shown(entry: Entry) -> str:
    """Return a log entry as text."""
    trace = trace_of(entry)[:8] or "-"
    return (
        f"{entry.get('time')}  {entry.get('code')}  {entry.get('duration_ms')} ms  "
        f"{entry.get('model') or '-'}  {entry.get('endpoint') or '-'}  {trace}  "
        f"{entry.get('method')} {entry.get('path')}  {entry.get('details')}"
    )


def logs(
    model: Annotated[
        str, typer.Option(help="Only requests for this model; on the twin only.")
    ] = "",
    status: Annotated[
        str, typer.Option(help="Only this status code or class, such as 503 or 5xx.")
    ] = "",
    trace: Annotated[str, typer.Option(help="Only the trace with this ID prefix.")] = "",
    follow: Annotated[bool, typer.Option("--follow", help="Keep printing new requests.")] = False,
    on: OnOption = Where.TWIN,
    stack: Annotated[
        str, typer.Option(help="With --on cloud: the stack. On the twin, shows all gateways.")
    ] = "",
    minutes: Annotated[
        int | None,
        typer.Option(min=1, max=43_200, help="With --on cloud: how far back to look. Default: 60."),
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show the access logs of the gateways. They never contain prompts.

    In Google Cloud, shows the sampled log entries of the load balancers, a minute late.
    """
    if status and not _STATUS.fullmatch(status):
        raise CommandError(f"--status: must be a status code such as 503 or 5xx, got {status!r}")
    if trace and not _TRACE.fullmatch(trace):
        raise CommandError(f"--trace: must be hexadecimal digits, got {trace!r}")
    check_only_with_cloud(cloud=on.is_cloud, stack=stack, minutes=minutes)
    wanted = Wanted(model, status, trace, minutes or _MINUTES)
    with open_backend(stack, cloud=on.is_cloud) as backend:
        log = backend.access_log(wanted)
        while True:
            for entry in log.read():
                if output is Output.JSON:
                    typer.echo(json.dumps(entry))  # one line for each, as programs read logs
                elif output is Output.YAML:
                    print_data([entry], output)
                else:
                    console.print(shown(entry), markup=False, soft_wrap=True)
            if not follow:
                return
            time.sleep(_CLOUD_LOOK_SECONDS if on.is_cloud else _LOOK_SECONDS)
