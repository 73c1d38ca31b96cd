"""The twin's timeline: what happened, when, to what; shared by all its processes."""

import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

_SKEW_SECONDS = 5.0  # writers take the time before they write, so lines are only nearly in order


class Events:
    """Appends events to a file and reads them back.

    A line is written with one `O_APPEND` write, so processes need no lock between them.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._before = file.with_name(f"{file.name}.1")

    def emit(self, kind: str, subject: str, message: str, **fields: Any) -> None:
        """Append one event.

        Args:
            kind: what happened, such as `node.ready` or `rung.stockout`.
            subject: what it happened to, such as a node, pod or rung.
            message: one line for people.
            fields: further facts, JSON values.
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
        """Return the events from `since` (seconds since the epoch) on, oldest first."""
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
        """Put the file aside once it is larger than `limit` bytes; the one before that goes.

        Writers open the file for each event, so none is lost. For one process of a twin only.
        """
        with suppress(FileNotFoundError):
            if self._file.stat().st_size > limit:
                self._file.replace(self._before)
