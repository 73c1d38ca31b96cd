"""Preflight of every stack, with the real compiler."""

import json
import subprocess
import sys

import pytest

from twin.host.paths import REPOSITORY

pytestmark = [pytest.mark.needs_tools, pytest.mark.needs_xla, pytest.mark.timeout(600)]
_STACKS = sorted(file.name.split(".")[1] for file in (REPOSITORY / "stacks").glob("Pulumi.*.yaml"))


@pytest.mark.parametrize(
    "stack",
    [pytest.param(name, marks=pytest.mark.soak if name != "local" else ()) for name in _STACKS],
)
def test_every_model_of_a_stack_would_start_on_every_rung(stack: str) -> None:
    argv = [sys.executable, "-m", "scripts.main", "preflight", "--stack", stack, "-o", "json"]
    answer = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=REPOSITORY)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    found = json.loads(answer.stdout)
    assert found
    for one in found:
        on_tpu = one["rung"].startswith("tpu")
        assert one["memory"]["ok"] is True, one
        assert one["kernel"]["ok"] is (True if on_tpu else None), one
