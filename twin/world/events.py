"""The twin's timeline of events, shared by all its processes."""

import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

_SKEW_SECONDS = 5.0  # writers take the time before they write, so lines are only nearly in order


class Events:
    """A file of events.

    Each line is one `O_APPEND` write, so processes need no lock.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._before = file.with_name(f"{file.name}.1")

    def emit(self, kind: str, subject: str, message: str, **fields: Any) -> None:
        """Append one event.

        Args:
            kind: kind of event, such as `node.ready` or `rung.stockout`.
            subject: affected object, such as a node, pod or rung.
            message: human-readable line.
            fields: additional JSON values.
        """
        event = {
            "time": time.time(),
            "kind": kind,
            "subject": subject,
            "message": message,
            **fields,
        }
        self._file.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(handle, (json.dumps(event) + "\n").encode())
        finally:
            os.close(handle)

    def read(self, since: float = 0.0) -> list[dict[str, Any]]:
        """Return the events since `since` (seconds since the epoch), oldest first."""
        found: list[dict[str, Any]] = []
        for file in (self._file, self._before):
            try:
                lines = file.read_text().splitlines()
            except FileNotFoundError:
                continue
            for line in reversed(lines):
                try:
                    event: dict[str, Any] = json.loads(line)
                except ValueError:
                    continue  # a disk that was full cut it short
                if event["time"] < since - _SKEW_SECONDS:
                    break
                found.append(event)
        return [event for event in reversed(found) if event["time"] >= since]

    def rotate(self, limit: int) -> None:
        """Rotate the file once it is larger than `limit` bytes, replacing the previous rotation.

        Writers open the file for each event, so none is lost. Only one process may call this.
        """
        with suppress(FileNotFoundError):
            if self._file.stat().st_size > limit:
                self._file.replace(self._before)
