"""The guard's process alone: which rails it takes, and those of the example."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.running.guardrails.guard import OF_GUARDS, Guard
from twin.host.paths import REPOSITORY
from twin.toolchain.python_environments import guardrails_environment

pytestmark = [pytest.mark.needs_tools, pytest.mark.timeout(120)]
EXAMPLE = REPOSITORY / "docs" / "examples" / "guardrails" / "house"


def check(guard: Guard, phase: str, text: str) -> Any:
    asked = {"phase": phase, "model": "m", "team": "t", "text": text}
    return requests.post(f"{guard.url}/v1/check", json=asked, timeout=30).json()


def test_the_rails_of_the_example_keep_products_secret(tmp_path: Path):
    guard = Guard(tmp_path, EXAMPLE)
    try:
        assert check(guard, "output", "The weather is fine.") == {"action": "allow"}
        assert check(guard, "output", "Next is Project  Heron.") == {
            "action": "block",
            "message": "The answer names a product that is not released.",
            "rail": "keep products secret",
        }
        found = check(guard, "input", "hello")
        assert found == {"error": "phase: must be one with rails (output), got 'input'"}
        assert 'guardrails_checks_total{action="block",phase="output"} 1.0' in guard.metrics()
    finally:
        guard.kill()


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (None, "error: --config: must be a folder, got "),
        ({"config.yml": "models: []"}, "error: --config: must have rails.input.flows or "),
        (
            {"config.yml": "models: []\nrails: {input: {flows: [a rail that is nowhere]}}"},
            "error: --config: must be rails of NeMo Guardrails: ",
        ),
    ],
)
def test_rails_that_do_not_load_end_the_process_with_one_line(tmp_path: Path, files, message):
    folder = tmp_path / "rails"
    for name, text in (files or {}).items():
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    answer = subprocess.run(
        [
            str(OF_GUARDS.python()),
            "-m",
            "workloads.guardrails",
            "--config",
            str(folder),
            "--port",
            "1",
        ],
        env=guardrails_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 2
    assert answer.stderr.startswith(message)
    assert answer.stderr.count("\n") == 1
