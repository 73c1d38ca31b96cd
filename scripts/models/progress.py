"""The progress of a transfer, with its rate and remaining time."""

import threading
import time

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

_LINE_SECONDS = 10.0


class TransferBars:
    """A bar for each stage of a transfer; without a terminal, a line every ten seconds."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._lock = threading.Lock()
        self._task: TaskID | None = None
        self._title, self._total, self._done = "", 0, 0
        self._begun = self._said = 0.0
        self._begun_with = 0

    def __enter__(self) -> "TransferBars":
        """Show the bars."""
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the bars."""
        self._bars.stop()

    def begin(self, title: str, total: int, done: int = 0) -> None:
        """Begin a stage of `total` bytes, of which `done` are complete."""
        with self._lock:
            if self._task is not None:
                self._bars.remove_task(self._task)
            self._task = self._bars.add_task(title, total=total, completed=done)
            self._title, self._total, self._done = title, total, done
            self._begun = self._said = time.monotonic()
            self._begun_with = done

    def add(self, count: int) -> None:
        """Count completed bytes."""
        with self._lock:
            self._done += count
            if self._task is not None:
                self._bars.advance(self._task, count)
            now = time.monotonic()
            if self._console.is_terminal or now - self._said < _LINE_SECONDS:
                return
            self._said = now
            line = progress_line(
                self._title,
                self._done,
                self._total,
                (self._done - self._begun_with) / (now - self._begun),
            )
        self.say(line)

    def say(self, line: str) -> None:
        """Print a line."""
        self._console.print(line, markup=False, soft_wrap=True)


def progress_line(title: str, done: int, total: int, rate: float) -> str:
    """Return a line such as `send to gs://b: 1.5 of 3.0 GB, 100.0 MB/s, 15 s left`.

    Args:
        title: Name of the stage.
        done: Completed bytes.
        total: Bytes of the stage.
        rate: Bytes per second.
    """
    left = f", {max(0, total - done) / rate:.0f} s left" if rate > 0 else ""
    return f"{title}: {size_text(done)} of {size_text(total)}, {size_text(rate)}/s{left}"


def size_text(size: float) -> str:
    """Return a readable size, such as `16.1 GB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
