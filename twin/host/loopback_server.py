"""Servers of the twin that keep their loopback port: programs know it from their environment."""

import json
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from twin.host import processes
from twin.host.locks import exclusive
from twin.host.paths import TwinPaths
from twin.host.ports import free_port

_LOOPBACK: Final = "127.0.0.1"
_FREED_SECONDS: Final = 2.0

Command = Callable[[TwinPaths, int], list[str]]


def served_by(module: str) -> Command:
    """Return the command line of a module that serves as `python -m MODULE ROOT PORT`."""
    return lambda paths, port: [sys.executable, "-m", module, str(paths.root), str(port)]


@dataclass(frozen=True)
class LoopbackServer:
    """A server that starts on first use and keeps its port over restarts, in `NAME.json`."""

    name: str
    """Name of its process and files."""
    command: Command
    """Returns the server's command line for a port; not called while the server runs."""

    def running_port(self, paths: TwinPaths) -> int | None:
        """Return the port of the running server, or None if it does not run."""
        return None if processes.pid_of(paths, self.name) is None else self._saved(paths)

    def ensure(self, paths: TwinPaths) -> int:
        """Return the server's port, after starting it if needed.

        Raises:
            processes.ProcessError: The server did not start.
            twin.toolchain.ToolError: Its program cannot be obtained.
        """
        paths.root.mkdir(parents=True, exist_ok=True)
        with exclusive(paths.root / f"{self.name}.lock"):  # the agents of clusters ask, too
            found = self.running_port(paths)
            return self._start(paths) if found is None else found

    def repair(self, paths: TwinPaths) -> None:
        """Restart the server on its port if it ran before and ended."""
        if self._saved(paths) is not None:
            self.ensure(paths)

    def _start(self, paths: TwinPaths) -> int:
        port = self._saved(paths)
        if port is None or not _is_freed(port):
            port = free_port()
        (paths.root / f"{self.name}.json").write_text(json.dumps({"port": port}))
        argv = self.command(paths, port)
        processes.ensure(paths, self.name, argv, ready=lambda: _answers(port))
        return port

    def _saved(self, paths: TwinPaths) -> int | None:
        try:
            return int(json.loads((paths.root / f"{self.name}.json").read_text())["port"])
        except (FileNotFoundError, ValueError, KeyError):
            return None


def _is_freed(port: int) -> bool:
    """Return whether a port is free; a stopped program can hold it for a moment."""
    limit = time.monotonic() + _FREED_SECONDS
    while _answers(port):
        if time.monotonic() > limit:
            return False
        time.sleep(0.02)
    return True


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((_LOOPBACK, port)) == 0
