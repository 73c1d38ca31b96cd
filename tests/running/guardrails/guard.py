"""The guard of the platform, as a process: the real NeMo Guardrails with the rails of a folder."""

import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

from tests.forks.warm import Warm
from twin.host.ports import free_port
from twin.toolchain.python_environments import GUARDRAILS, guardrails_environment


def _python() -> Path:
    GUARDRAILS.install(lambda *_: None)
    return GUARDRAILS.python()


OF_GUARDS = Warm(
    _python,
    lambda _: guardrails_environment(),
    "nemoguardrails.rails.llm.options",
    "workloads.guardrails.server",
)
"""The interpreter that has NeMo Guardrails."""


class Guard:
    """One replica."""

    def __init__(self, folder: Path, config: Path | None = None) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = folder / f"guard-{self.port}.log"
        argv = [str(OF_GUARDS.python()), "-m", "workloads.guardrails", "--address", "127.0.0.1"]
        argv += ["--port", str(self.port), *(["--config", str(config)] if config else [])]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                argv, stdout=log, stderr=log, env=guardrails_environment()
            )
        end = time.monotonic() + 60
        while not self._is_ready():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < end, "the guard did not start"
            time.sleep(0.1)

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=5) as answer:  # noqa: S310 - our own
                return answer.status == 200
        except urllib.error.URLError:
            return False

    def config(self, failure: str = "closed", **changes: object) -> dict[str, object]:
        """Return what the callout's file says about this guard."""
        phases = ["input", "output"]
        found = {"url": self.url, "phases": phases, "failure": failure, "timeout_ms": 5000}
        return {**found, **changes}

    def metrics(self) -> str:
        """Return its page of metrics."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=5) as answer:  # noqa: S310 - our own
            return answer.read().decode()

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()
        self.process.wait(10)
