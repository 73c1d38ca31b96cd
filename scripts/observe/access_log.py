"""Lines of gateways' access logs: what they have, which are wanted, and how files grow."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Entry = dict[str, Any]


def entries(files: dict[Path, int]) -> Iterator[Entry]:
    """Yield the new lines of files, and record how far each file was read."""
    for file, at in files.items():
        if not file.exists():
            continue
        with file.open("rb") as handle:
            handle.seek(at)
            for line in handle:
                if not line.endswith(b"\n"):
                    break  # still being written
                files[file] += len(line)
                yield json.loads(line)


def trace_of(entry: Entry) -> str:
    """Return the trace ID of a line, empty if its request had none."""
    parts = str(entry.get("traceparent") or "").split("-")
    return parts[1] if len(parts) > 1 else ""


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
