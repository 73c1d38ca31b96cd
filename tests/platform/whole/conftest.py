import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scripts.shared.engine import Engine
from twin import daemon
from twin.host import processes
from twin.host.paths import REPOSITORY, TwinPaths
from twin.world import store


class Platform:
    """A twin of its own, driven as a user drives it."""

    def __init__(self, paths: TwinPaths):
        self.paths = paths
        self.shown = ""
        """What the last `up` printed."""
        self.engine = Engine(paths)
        self.environment = {
            **os.environ,
            **self.engine.environment,
            "GKE_INFERENCE_TWIN_DIR": str(paths.root),
        }

    def cli(self, *arguments: str, timeout: float = 600) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(Path(sys.executable).with_name("gke-inference")), *arguments],
            cwd=REPOSITORY,
            env={**os.environ, "GKE_INFERENCE_TWIN_DIR": str(self.paths.root)},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def pulumi(self, *arguments: str, timeout: float = 600) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["pulumi", *arguments, "--non-interactive"],
            cwd=REPOSITORY,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def resources(self) -> int:
        """Return how many resources the cloud has."""
        return len(store.list_resources(self.paths))

    def kill_when(self, reached, *arguments: str) -> bool:
        """Start a command and kill it alone once `reached()`; say whether it was.

        Its engine has to end with it.
        """
        process = subprocess.Popen(
            [str(Path(sys.executable).with_name("gke-inference")), *arguments],
            cwd=REPOSITORY,
            env={**os.environ, "GKE_INFERENCE_TWIN_DIR": str(self.paths.root)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until = time.monotonic() + 180
        while process.poll() is None and time.monotonic() < until:
            if reached():
                process.send_signal(signal.SIGKILL)
                process.wait()
                return True
            time.sleep(0.02)
        process.kill()
        process.wait()
        return False


@pytest.fixture(scope="package")
def platform(tmp_path_factory):
    """One twin for the files of this folder, which follow each other: up, dashboards, destroy."""
    paths = TwinPaths(tmp_path_factory.mktemp("platform") / "twin")
    daemon.ensure(paths)
    yield Platform(paths)
    daemon.shut_down(paths)
    assert processes.running(paths) == {}


@pytest.fixture(scope="package")
def deployed(platform):
    """The platform after an `up`."""
    answer = platform.cli("up", "--stack", "local")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    platform.shown = answer.stdout
    return platform
