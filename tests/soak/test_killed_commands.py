"""`up` and `down` are killed at random moments; the same command then ends what they began."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from tests.platform.example_checkout import checkout, output_of
from twin import daemon
from twin.host import processes
from twin.host.paths import TwinPaths

pytestmark = [pytest.mark.needs_tools, pytest.mark.soak, pytest.mark.timeout(7200)]

STACK = ("--stack", "clients")
MOMENTS = 10
"""Of each command: twenty in all."""
LONGEST_SECONDS = {"up": 40.0, "down": 20.0}


def kill_during(folder, paths, command: str, seconds: float) -> None:
    """Start a command and kill it alone, as the kernel does when memory is short."""
    with subprocess.Popen(
        [sys.executable, "-m", "scripts.main", command, *STACK],
        cwd=folder,
        env={
            **os.environ,
            "GKE_INFERENCE_TWIN_DIR": str(paths.root),
            "PYTHONPATH": f"{folder}{os.pathsep}{folder / 'components'}",
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)


# its short form is in tests/platform/whole: an engine that is killed during a destroy
def test_a_command_that_was_killed_at_any_moment_succeeds_when_it_is_run_again(
    tmp_path, record_property
):
    folder, paths = checkout(tmp_path / "checkout", "clients"), TwinPaths(tmp_path / "twin")
    seed = random.randrange(1_000_000)
    record_property("seed", seed)
    chance = random.Random(seed)
    try:
        for _ in range(MOMENTS):
            for command in ("up", "down"):
                kill_during(folder, paths, command, chance.uniform(0, LONGEST_SECONDS[command]))
                output_of(folder, paths, command, *STACK)
    finally:
        daemon.shut_down(paths)
    assert processes.running(paths) == {}
