"""The engine process: its output in the launcher's log, its last lines, and its end."""

import collections
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import IO

from .log import pass_on

_LAST_LINES = 40


class Engine:
    """A running engine and all processes that it started.

    Args:
        command: Program and arguments, as the process gets them.
        environment: Environment of the process.
        heard: Called with every line of output.
        ended: Called once when the process has ended.

    Raises:
        OSError: The program does not exist.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        heard: "Callable[[str], None]",
        ended: "Callable[[], None]",
    ) -> None:
        self.last_lines: collections.deque[str] = collections.deque(maxlen=_LAST_LINES)
        self._heard = heard
        # Its own process group: its child processes end with it, and a signal reaches it once.
        self._process = subprocess.Popen(
            list(command),
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        threading.Thread(target=self._watch, args=(ended,), daemon=True).start()

    @property
    def pid(self) -> int:
        """PID of the engine, which is also the ID of its process group."""
        return self._process.pid

    @property
    def code(self) -> "int | None":
        """Exit code as in a shell (128 plus the signal), or None while it runs."""
        code = self._process.returncode
        return code if code is None or code >= 0 else 128 - code

    def send(self, number: int) -> None:
        """Send a signal to the engine only; the engine ends its child processes."""
        if self.code is None:
            self._process.send_signal(number)

    def kill(self) -> None:
        """Kill the engine and all processes that it started."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return

    def join(self, seconds: float) -> None:
        """Wait until all output has been read."""
        self._reader.join(seconds)

    def _read(self) -> None:
        stream: IO[bytes] | None = self._process.stdout
        if stream is None:
            return
        with stream:
            for raw in stream:
                # a progress bar overwrites its line: keep the last state
                line = raw.decode(errors="replace").rstrip("\r\n").rpartition("\r")[2]
                if line.strip():
                    message = pass_on(line)
                    self.last_lines.append(message)
                    self._heard(message)

    def _watch(self, ended: "Callable[[], None]") -> None:
        self._process.wait()
        ended()


def reap(pid: "int | None") -> None:
    """Reap orphaned processes if this process is the first of its container."""
    while os.getpid() == 1:
        try:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if found is None or found.si_pid == pid:
            return
        os.waitpid(found.si_pid, os.WNOHANG)
