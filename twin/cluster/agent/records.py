"""Processes of containers: started detached, recorded, adopted, and ended by PID.

They outlive the process that started them, so engines survive a crash of the twin's control
program. Each record includes the start time, so a PID that the kernel has reused is not mistaken
for the container's process.
"""

import json
import os
import signal
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from twin.host.processes import started_at

_exit_codes: dict[tuple[int, str], int] = {}
_KEPT_CODES = 1000
_EXIT_SECONDS = 10.0
_OPEN = os.O_WRONLY | os.O_CREAT | os.O_APPEND


@dataclass(frozen=True)
class Record:
    """A container's process."""

    pid: int
    started: str
    """Start time of the process, from the kernel."""
    started_epoch: float
    restarts: int

    @property
    def alive(self) -> bool:
        """Whether this process still runs."""
        self._collect()
        return started_at(self.pid) == self.started

    def exit_code(self) -> int | None:
        """Return the exit code of an ended process, negative for a signal; None if unknown.

        A process with threads is a zombie before the last of them is gone, and has a code only
        after that.
        """
        until = time.monotonic() + _EXIT_SECONDS
        while self._collect() and time.monotonic() < until:
            time.sleep(0.01)
        return _exit_codes.pop((self.pid, self.started), None)

    def _collect(self) -> bool:
        """Store the exit code of the process once it has ended; True: it has none yet."""
        try:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:  # after a crash, it is not our child process
            return False
        if not pid:
            return True
        while len(_exit_codes) >= _KEPT_CODES:  # of containers that were told to end
            _exit_codes.pop(next(iter(_exit_codes)), None)
        _exit_codes[self.pid, self.started] = os.waitstatus_to_exitcode(status)
        return False


def start(
    argv: list[str], environment: dict[str, str], log: Path, file: Path, restarts: int
) -> Record:
    """Start a process in its own session and record it in `file`.

    Raises:
        OSError: The program cannot be started.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    file.parent.mkdir(parents=True, exist_ok=True)
    # not subprocess: its objects warn about, and wait for, processes that are meant to outlive them
    pid = os.posix_spawn(
        argv[0],
        argv,
        environment,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), _OPEN, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )
    record = Record(pid, started_at(pid) or "", time.time(), restarts)
    partial = file.with_suffix(".tmp")
    partial.write_text(json.dumps(asdict(record)))
    partial.replace(file)
    return record


def read(file: Path) -> Record | None:
    """Return the record in `file`, or None."""
    try:
        return Record(**json.loads(file.read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def in_folder(folder: Path) -> list[Record]:
    """Return the records in the folder of a pod."""
    return [record for file in folder.glob("*.process.json") if (record := read(file)) is not None]


def signal_all(records: list[Record], number: signal.Signals) -> None:
    """Send a signal to every process of the records that still runs.

    As with the kubelet, only the first process gets SIGTERM, and it ends its own children. All
    processes get SIGKILL.
    """
    send = os.killpg if number == signal.SIGKILL else os.kill
    for record in records:
        if record.alive:
            with suppress(ProcessLookupError, PermissionError):
                send(record.pid, number)


def end(records: list[Record], grace: float) -> None:
    """End processes with SIGTERM, and those that remain after `grace` seconds with SIGKILL."""
    for number, seconds in ((signal.SIGTERM, grace), (signal.SIGKILL, 5.0)):
        signal_all(records, number)
        until = time.monotonic() + seconds
        while any(record.alive for record in records) and time.monotonic() < until:
            time.sleep(0.02)


def stop_all(cluster_dir: Path, grace: float = 3.0) -> None:
    """End every container process of a cluster and delete the records; idempotent."""
    files = sorted((cluster_dir / "pods").glob("*/*/*.process.json"))
    end([record for file in files if (record := read(file))], grace)
    for file in files:
        file.unlink(missing_ok=True)


def stale_folders(cluster_dir: Path, uids: set[str]) -> list[Path]:
    """Return the folders of pods that no longer exist."""
    return [path for path in (cluster_dir / "pods").glob("*/*") if path.name not in uids]
