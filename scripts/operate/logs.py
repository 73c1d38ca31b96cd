"""`gke-inference logs`: the access logs of the twin's gateways; no line has a prompt."""

import json
import re
import time
from pathlib import Path
from typing import Annotated

import typer

from scripts.observe.access_log import Entry, entries, trace_of
from scripts.terminal.console import CommandError, console
from twin.cluster import lifecycle as clusters
from twin.host.paths import TwinPaths

_LOOK_SECONDS = 0.5
_STATUS = re.compile("[1-5]([0-9][0-9]|xx)")


def is_wanted(entry: Entry, model: str, status: str, trace: str) -> bool:
    """Return whether a line of the access log passes the filters; an empty filter passes all.

    Args:
        entry: Line of the log.
        model: Exact name of a model.
        status: Status code such as `503`, or class such as `5xx`.
        trace: Prefix of a trace ID.
    """
    code = str(entry.get("code", ""))
    fits = code[:1] == status[:1] if status.endswith("xx") else code == status
    return (
        (not model or entry.get("model") == model)
        and (not status or fits)
        and (not trace or trace_of(entry).startswith(trace))
    )


def shown(entry: Entry) -> str:
    """Return a line of the log as people read it."""
    trace = trace_of(entry)[:8] or "-"
    return (
        f"{entry.get('time')}  {entry.get('code')}  {entry.get('duration_ms')} ms  "
        f"{entry.get('model') or '-'}  {entry.get('endpoint') or '-'}  {trace}  "
        f"{entry.get('method')} {entry.get('path')}  {entry.get('details')}"
    )


def logs(
    model: Annotated[str, typer.Option(help="Only requests for this model.")] = "",
    status: Annotated[
        str, typer.Option(help="Only this status code or class, such as 503 or 5xx.")
    ] = "",
    trace: Annotated[str, typer.Option(help="Only the trace with this ID prefix.")] = "",
    follow: Annotated[bool, typer.Option("--follow", help="Keep printing new requests.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the log lines as JSON.")] = False,
) -> None:
    """Show the requests that passed the gateways of the twin."""
    if status and not _STATUS.fullmatch(status):
        raise CommandError(f"--status: must be a status code such as 503 or 5xx, got {status!r}")
    paths = TwinPaths.default()
    if not clusters.folders(paths):
        raise CommandError("the twin has no cluster, so no gateway; start it with make up")
    files: dict[Path, int] = {}
    while True:
        for folder in clusters.folders(paths):
            for file in sorted((folder / "logs").glob("gateway-*.access.jsonl")):
                files.setdefault(file, 0)
        for entry in sorted(entries(files), key=lambda one: str(one.get("time"))):
            if is_wanted(entry, model, status, trace):
                text = json.dumps(entry) if as_json else shown(entry)
                console.print(text, markup=False, soft_wrap=True)
        if not follow:
            return
        time.sleep(_LOOK_SECONDS)
