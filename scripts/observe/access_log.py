"""Entries of gateways' access logs: reading growing files, and filtering."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Entry = dict[str, Any]


def entries(files: dict[Path, int]) -> Iterator[Entry]:
    """Yield the new entries of files, and record the read position of each file."""
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
    """Return the trace ID of an entry; empty if its request had none."""
    parts = str(entry.get("traceparent") or "").split("-")
    return parts[1] if len(parts) > 1 else ""


def is_wanted(entry: Entry, model: str, status: str, trace: str) -> bool:
    """Return whether an entry of the access log matches the filters; empty filters match all.

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
