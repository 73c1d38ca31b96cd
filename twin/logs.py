"""Size limits for a twin's own logs."""

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
    """Truncate a log larger than `limit` bytes, and save its last `kept` bytes as NAME.1.

    Every program of a twin appends to its log (`O_APPEND`), so it continues at the new end. Lines
    written between reading and truncating are lost.

    Returns:
        Whether the file was truncated.
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
    """Yield every file to which a process of the twin appends."""
    yield from paths.logs.glob("*.log")
    yield from paths.logs.glob("*.jsonl")
    for folder in paths.clusters.glob("*/logs"):
        yield from folder.rglob("*.log")
        yield from folder.rglob("*.jsonl")


def keep_short(paths: TwinPaths, stop: threading.Event) -> None:
    """Limit the logs and the timeline periodically until `stop` is set; the daemon runs it."""
    events = Events(paths.events_file)
    while not stop.wait(_PERIOD_SECONDS):
        with suppress(OSError):  # a folder that goes while it is read; the next round sees the rest
            events.rotate(LIMIT_BYTES)
            for file in logs_of(paths):
                cap(file)
