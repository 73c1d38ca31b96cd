"""The routing laboratory with all its bounds, and its points with the real picker."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from twin.host.paths import REPOSITORY

pytestmark = [pytest.mark.needs_tools, pytest.mark.soak, pytest.mark.timeout(3600)]
FOLDER = REPOSITORY / "build" / "bench"


@pytest.mark.parametrize("subject", ["routing", "picker"])
def test_every_bound_of_the_laboratory_holds(record_property, subject):
    # short forms: bench/tests/running/laboratory
    program = str(Path(sys.executable).with_name("bench"))
    answer = subprocess.run(
        [program, subject], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    found = json.loads((FOLDER / f"{subject}.json").read_text())
    held = sum(check["pass"] for check in found["checks"])
    words = f"{len(found['rows'])} rows, {held} of {len(found['checks'])} bounds hold"
    record_property("figures", words)
