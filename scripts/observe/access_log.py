"""The access logs of the twin's gateways, read as they are written."""

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
