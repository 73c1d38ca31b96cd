"""Servers of the twin that keep their loopback ports: programs know them from their environment."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from twin.host import processes
from twin.host.locks import exclusive
from twin.host.paths import TwinPaths
from twin.host.ports import are_released, free_ports, listens

_LOOPBACK: Final = "127.0.0.1"

Ports = tuple[int, ...]
Command = Callable[[TwinPaths, Ports], list[str]]


def served_by(module: str) -> Command:
    """Return the command line of a module that serves as `python -m MODULE ROOT PORT...`."""
    return lambda paths, ports: [sys.executable, "-m", module, str(paths.root), *map(str, ports)]


@dataclass(frozen=True)
class LoopbackServer:
    """A server that starts on first use and keeps its ports over restarts, in `NAME.json`."""

    name: str
    """Name of its process and files."""
    command: Command
    """Returns the server's command line; called only to start it."""
    count: int = 1
    """Number of ports."""

    def running(self, paths: TwinPaths) -> Ports | None:
        """Return the ports of the running server, or None if it does not run."""
        return None if processes.pid_of(paths, self.name) is None else self._saved(paths)

    def ensure(self, paths: TwinPaths) -> Ports:
        """Return the server's ports, after starting it if needed.

        Raises:
            processes.ProcessError: The server did not start.
            twin.toolchain.ToolError: Its program cannot be obtained.
        """
        paths.root.mkdir(parents=True, exist_ok=True)
        with exclusive(paths.root / f"{self.name}.lock"):  # the agents of clusters ask, too
            found = self.running(paths)
            return self._start(paths) if found is None else found

    def address(self, paths: TwinPaths) -> str:
        """Return `HOST:PORT` of the first port, after starting the server if needed.

        Raises:
            processes.ProcessError: The server did not start.
            twin.toolchain.ToolError: Its program cannot be obtained.
        """
        return f"{_LOOPBACK}:{self.ensure(paths)[0]}"

    def repair(self, paths: TwinPaths) -> None:
        """Restart the server on its ports if it ran before and ended."""
        if self._saved(paths) is not None:
            self.ensure(paths)

    def _start(self, paths: TwinPaths) -> Ports:
        ports = self._saved(paths)
        if ports is None or not are_released(ports):
            ports = free_ports(self.count)
        (paths.root / f"{self.name}.json").write_text(json.dumps({"ports": ports}))
        argv = self.command(paths, ports)
        processes.ensure(paths, self.name, argv, ready=lambda: all(map(listens, ports)))
        return ports

    def _saved(self, paths: TwinPaths) -> Ports | None:
        try:
            saved = json.loads((paths.root / f"{self.name}.json").read_text())
            return tuple(map(int, saved["ports"]))
        except (FileNotFoundError, ValueError, KeyError):
            return None
