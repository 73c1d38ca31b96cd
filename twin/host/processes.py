"""The processes of a twin: detached start, recovery after a crash, stop by process ID.

A process is recorded with its start time, so that a reused process ID is never mistaken for it.
"""

import atexit
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from twin.host.paths import TwinPaths

_GRACE_SECONDS = 3.0
_KILL_SECONDS = 5.0
_LEAST_WAIT_SECONDS, _MOST_WAIT_SECONDS = 0.05, 0.2
GO_SETTINGS = {"GOGC": "400"}
"""Variables of the twin's Go programs, which have small heaps: each may grow more between two
collections. A control plane starts with a quarter less processor time."""
_children: list[subprocess.Popen[bytes]] = []


@atexit.register
def _leave_children() -> None:
    """Suppress warnings about child processes that intentionally outlive this one."""
    for child in _children:
        child.returncode = child.returncode or 0


class ProcessError(Exception):
    """A process of the twin did not start, or ended before it was ready."""


def process_environment(paths: TwinPaths) -> dict[str, str]:
    """Return the environment variables of every process of the twin."""
    inherited = paths.without_programs(os.environ.get("PATH", ""))
    return {
        "GKE_INFERENCE_TWIN_DIR": str(paths.root),
        "PYTHONDONTWRITEBYTECODE": "",  # without bytecode each run compiles the SDKs again: 4 s
        "SSL_CERT_FILE": str(paths.ca_bundle),
        "PATH": os.pathsep.join([str(paths.bin), inherited]),
    }


def started_at(pid: int) -> str | None:
    """Return the kernel's start time of a running process, or None if it does not run."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, *rest = stat.rsplit(")", 1)[1].split()
    return None if state == "Z" else rest[18]


def _record(paths: TwinPaths, name: str) -> Path:
    return paths.pids / f"{name}.json"


def pid_of(paths: TwinPaths, name: str) -> int | None:
    """Return the process ID of a running process of this twin."""
    try:
        record: dict[str, Any] = json.loads(_record(paths, name).read_text())
    except (FileNotFoundError, ValueError):
        return None
    pid = int(record["pid"])
    return pid if started_at(pid) == record["started"] else None


def running(paths: TwinPaths) -> dict[str, int]:
    """Return name and process ID of every running process of this twin."""
    names = [file.stem for file in sorted(paths.pids.glob("*.json"))]
    found = {name: pid_of(paths, name) for name in names}
    return {name: pid for name, pid in found.items() if pid is not None}


def register(paths: TwinPaths, name: str, pid: int) -> None:
    """Record a process under a name."""
    paths.pids.mkdir(parents=True, exist_ok=True)
    record = {"pid": pid, "started": started_at(pid)}
    partial = _record(paths, name).with_suffix(f".{os.getpid()}.tmp")
    partial.write_text(json.dumps(record))
    partial.replace(_record(paths, name))


def log_of(paths: TwinPaths, name: str) -> Path:
    """Return the output file of a process."""
    return paths.logs / f"{name}.log"


def start(
    paths: TwinPaths,
    name: str,
    argv: list[str],
    env: dict[str, str] | None = None,
    pass_fds: tuple[int, ...] = (),
) -> subprocess.Popen[bytes]:
    """Start a process in its own session and record it.

    Args:
        paths: paths of the twin.
        name: recorded name.
        argv: program and arguments.
        env: additional environment variables.
        pass_fds: file descriptors that it inherits under the same numbers.

    Raises:
        ProcessError: the program cannot be run.
    """
    paths.logs.mkdir(parents=True, exist_ok=True)
    with log_of(paths, name).open("ab") as log:
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**GO_SETTINGS, **os.environ, **(env or {})},
                pass_fds=pass_fds,
            )
        except OSError as error:
            raise ProcessError(f"{name}: {error}") from error
    _children.append(process)
    register(paths, name, process.pid)
    return process


def wait_ready(
    paths: TwinPaths,
    name: str,
    process: subprocess.Popen[bytes],
    ready: Callable[[], bool],
    timeout: float = 60,
) -> None:
    """Wait until `ready` returns true.

    Raises:
        ProcessError: the process ended, or was not ready in `timeout` seconds; names its log.
    """
    begun = time.monotonic()
    while (waited := time.monotonic() - begun) < timeout:
        if process.poll() is not None:
            raise ProcessError(
                f"{name} ended with status {process.returncode}: {_last_line(paths, name)}"
            )
        if ready():
            return
        # it often asks the process, which then takes longer to start
        time.sleep(max(_LEAST_WAIT_SECONDS, min(waited / 20, _MOST_WAIT_SECONDS)))
    raise ProcessError(f"{name} was not ready in {timeout:.0f} s: {_last_line(paths, name)}")


def _last_line(paths: TwinPaths, name: str) -> str:
    log = log_of(paths, name)
    lines = log.read_text(errors="replace").splitlines()[-1:] if log.exists() else []
    return f"{' '.join(lines)[:300]} (log: {log})"


def ensure(
    paths: TwinPaths,
    name: str,
    argv: list[str],
    env: dict[str, str] | None = None,
    ready: Callable[[], bool] | None = None,
    timeout: float = 60,
) -> int:
    """Return the process ID of a process, after starting it if needed.

    Raises:
        ProcessError: the process did not start or was not ready in time.
    """
    pid = pid_of(paths, name)
    if pid is not None:
        return pid
    process = start(paths, name, argv, env)
    if ready is not None:
        wait_ready(paths, name, process, ready, timeout)
    return process.pid


def _gone(pid: int, start_time: str | None) -> bool:
    for child in _children:
        if child.pid == pid:
            child.poll()  # a child of ours stays a zombie until it is waited for
    return started_at(pid) != start_time


def end(pids: Iterable[int], grace: float = _GRACE_SECONDS) -> None:
    """Stop processes with SIGTERM, and with SIGKILL after `grace` seconds."""
    alive = {pid: started_at(pid) for pid in pids}
    alive = {pid: begun for pid, begun in alive.items() if begun is not None}
    # nothing survives SIGKILL, but it can take a while on a busy machine
    for number, patience in ((signal.SIGTERM, grace), (signal.SIGKILL, max(grace, _KILL_SECONDS))):
        for pid in alive:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        until = time.monotonic() + patience
        while alive and time.monotonic() < until:
            alive = {pid: begun for pid, begun in alive.items() if not _gone(pid, begun)}
            time.sleep(0.02)
        if not alive:
            return


def stop(paths: TwinPaths, *names: str, grace: float = _GRACE_SECONDS) -> None:
    """Stop recorded processes and delete their records, including those of stopped ones."""
    pids = [pid for name in names if (pid := pid_of(paths, name)) is not None]
    end(pids, grace)
    for name in names:
        if pid_of(paths, name) is None:  # else somebody has started it again meanwhile
            _record(paths, name).unlink(missing_ok=True)
