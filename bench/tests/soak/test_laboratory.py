"""The routing laboratory with every policy on the workload of adapters, in short stages."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from twin.host.paths import REPOSITORY

pytestmark = [pytest.mark.needs_tools, pytest.mark.soak, pytest.mark.timeout(3600)]
FILE = REPOSITORY / "build" / "bench" / "routing.json"


def test_every_policy_answers_every_request_within_the_bounds(record_property):
    program = str(Path(sys.executable).with_name("bench"))
    command = [program, "routing", "--quick", "--workload", "lora"]
    answer = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    found = json.loads(FILE.read_text())
    assert found["command"] == "bench routing --quick"
    assert {row["lost"] for row in found["rows"]} == {0}
    held = sum(check["pass"] for check in found["checks"])
    words = f"{len(found['rows'])} rows, {held} of {len(found['checks'])} bounds hold"
    record_property("figures", words)
