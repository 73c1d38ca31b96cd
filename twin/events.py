"""The twin's timeline: what happened, when, to what; shared by all its processes."""

import json
import os
import time
from pathlib import Path
from typing import Any


class Events:
    """Appends events to a file and reads them back.

    A line is written with one `O_APPEND` write, so processes need no lock between them.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

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
        try:
            lines = self._file.read_text().splitlines()
        except FileNotFoundError:
            return []
        events: list[dict[str, Any]] = [json.loads(line) for line in lines if line]
        return [event for event in events if event["time"] >= since]
