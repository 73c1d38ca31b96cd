"""Programs of the workloads as processes, for tests."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.forks.warm import Warm
from twin.engines.stream_worker import stream_environment
from twin.host.paths import REPOSITORY
from twin.tests.eventually import pause
from twin.tests.metric_pages import total

LIMIT = 30.0
_WORDS = (b'"serving"', b'"working"')
"""What a program logs when it is ready."""


def _quiet(_: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONWARNINGS": "ignore"}


PYTHON = Warm(
    lambda: Path(sys.executable),
    _quiet,
    "workloads.batch.main",
    "workloads.diffusion.server",
    "workloads.diffusion.worker",
)
"""This interpreter, with the programs that many tests start."""
OF_STREAMS = Warm(lambda: stream_environment().python(), _quiet, "workloads.stream.main")
"""The one that has Pub/Sub."""


def until(condition: Callable[[], Any], seconds: float = LIMIT) -> None:
    """Wait until a condition holds."""
    began = time.monotonic()
    while not condition():
        waited = time.monotonic() - began
        assert waited < seconds, f"not true within {seconds} s"
        time.sleep(pause(waited))


class Program:
    """A service or a worker.

    Args:
        log: File of its output.
        argv: Command.
        environment: Additional variables.
        metrics_port: Port of its metrics; 0 if it has none.
    """

    def __init__(
        self,
        log: Path,
        argv: Sequence[str],
        environment: Mapping[str, str],
        metrics_port: int = 0,
    ) -> None:
        self.log = log
        self._metrics_port = metrics_port
        with log.open("wb") as file:
            self.process = subprocess.Popen(
                argv,
                cwd=REPOSITORY,
                env={**os.environ, **environment},
                start_new_session=True,
                stderr=file,
                stdout=file,
            )

    def wait(self) -> None:
        """Wait until it works."""
        until(
            lambda: (
                self.process.poll() is not None
                or any(word in self.log.read_bytes() for word in _WORDS)
            )
        )
        assert self.process.poll() is None, self.log.read_text()

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def metric(self, name: str) -> float:
        """Return the sum of the series whose name and labels begin with a text."""
        return total(f"http://127.0.0.1:{self._metrics_port}/metrics", name)

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it without a chance to do anything."""
        self.process.kill()
        self.process.wait(10)
