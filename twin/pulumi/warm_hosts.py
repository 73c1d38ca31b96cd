"""Language hosts with preloaded SDKs: forks of one process that loads them once.

Each run of the engine starts two language hosts in succession: one is asked for its version alone,
the other loads the SDKs for more than a second before the program starts. The engine attaches to
one of these hosts instead (`PULUMI_DEBUG_LANGUAGES`). The process loads while the command does
other things; of several runs, only the first waits for it.
"""

import json
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from twin.host.processes import ProcessError

_PROCESS = "twin.pulumi.host_forks"
"""The module of the process, whose imports the program that starts it need not wait for."""


class WarmHosts:
    """The process with the loaded SDKs, and its forked hosts."""

    def __init__(
        self,
        folder: Path,
        environment: Mapping[str, str],
        modules: Sequence[str] = (),
        output: int = subprocess.DEVNULL,
    ) -> None:
        """Start loading without waiting for it.

        Args:
            folder: working directory of the process, without modules, because Python searches it
                first.
            environment: environment of the process; each host has its own.
            modules: modules that programs import, to load after the SDKs.
            output: file descriptor for what programs print; what they log goes to the engine.
        """
        self._lock = threading.Lock()
        self._control, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", _PROCESS, str(theirs.fileno()), *modules],
                cwd=folder,
                env=dict(environment),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=output,
                process_group=0,  # as the engine's plugins: Ctrl-C is for the command alone
            )
        self._answers = self._control.makefile("r")
        self._end = weakref.finalize(self, _stop, self._process, self._answers, self._control)

    def close(self) -> None:
        """Stop the process and every host, which the end of this program does too."""
        self._end()

    @contextmanager
    def host(self, environment: Mapping[str, str]) -> Generator[int]:
        """Yield the port of a host for one run of the engine; the host ends with the block.

        Args:
            environment: environment of the run; `PYTHONPATH` applies as at the start of an
                interpreter.

        Raises:
            twin.host.processes.ProcessError: the process ended.
        """
        answer = self._ask({"environment": dict(environment)})
        try:
            yield answer["port"]
        finally:
            self._ask({"end": answer["pid"]})

    def _ask(self, request: Mapping[str, object]) -> dict[str, int]:
        with self._lock:
            try:
                self._control.sendall(json.dumps(request).encode() + b"\n")
                answer = self._answers.readline()
            except OSError:
                answer = ""
        if not answer:
            raise ProcessError("the process that has the SDKs loaded has ended")
        return json.loads(answer)


def _stop(process: subprocess.Popen[bytes], *connections: IO[str] | socket.socket) -> None:
    process.terminate()
    process.wait()
    for each in connections:
        each.close()
