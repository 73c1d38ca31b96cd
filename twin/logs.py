"""Keeps what a twin writes about itself from growing for as long as it runs."""

import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from twin.host.paths import TwinPaths
from twin.world.events import Events

LIMIT_BYTES = 32 * 1024 * 1024
_KEPT_BYTES = 4 * 1024 * 1024
_PERIOD_SECONDS = 20.0


def cap(file: Path, limit: int = LIMIT_BYTES, kept: int = _KEPT_BYTES) -> bool:
    """Empty a log larger than `limit` bytes, its last `kept` bytes put aside as NAME.1.

    Every program of a twin appends to its log (`O_APPEND`), so it goes on at the new end; lines
    written in the moment between reading and emptying are lost.

    Returns:
        Whether the file was emptied.
    """
    with suppress(FileNotFoundError), file.open("r+b") as log:
        size = log.seek(0, 2)
        if size <= limit:
            return False
        log.seek(max(0, size - kept))
        file.with_name(f"{file.name}.1").write_bytes(log.read())
        log.truncate(0)
        return True
    return False


def logs_of(paths: TwinPaths) -> Iterable[Path]:
    """Yield every file that a process of the twin appends to."""
    yield from paths.logs.glob("*.log")
    yield from paths.logs.glob("*.jsonl")
    for folder in paths.clusters.glob("*/logs"):
        yield from folder.rglob("*.log")
        yield from folder.rglob("*.jsonl")


def keep_short(paths: TwinPaths, stop: threading.Event) -> None:
    """Cap the logs and the timeline now and then until `stop` is set; the daemon runs it."""
    events = Events(paths.events_file)
    while not stop.wait(_PERIOD_SECONDS):
        with suppress(OSError):  # a folder that goes while it is read; the next round sees the rest
            events.rotate(LIMIT_BYTES)
            for file in logs_of(paths):
                cap(file)
