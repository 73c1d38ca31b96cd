"""What a soak run selects, records and writes."""

import json
import os
import subprocess
import sys

import pytest

from tests.tiers.soak import page
from twin.host.paths import REPOSITORY

TESTS = """
import pytest

def test_a_short_one():
    pass

@pytest.mark.soak
def test_a_long_one_loses_nothing(record_property):
    record_property("sent", 240)
    record_property("lost", 0)

@pytest.mark.soak
def test_one_that_fails():
    raise ValueError
"""


@pytest.fixture
def run(tmp_path):
    """Run pytest on a project with a short and two long tests; return its last line."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "test_faults_of_all_kinds.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\ntestpaths = .\nmarkers = soak: long\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.tiers.soak"]

    def begin(*options):
        answer = subprocess.run(
            [*command, *options],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            capture_output=True,
            text=True,
            check=False,
        )
        return answer.stdout.splitlines()[-1]

    return begin


def test_without_the_option_no_long_test_runs(run, tmp_path):
    assert run().startswith("1 passed, 2 deselected")
    assert list((tmp_path / "docs").iterdir()) == []


def test_a_soak_run_writes_what_it_found_failures_too(run, tmp_path):
    assert run("--soak").startswith("1 failed, 1 passed, 1 deselected")
    found = json.loads((tmp_path / "build" / "soak.json").read_text())
    rows = {row["test"].split("::")[1]: row for row in found["rows"]}
    assert rows["test_one_that_fails"]["outcome"] == "failed"
    long = rows["test_a_long_one_loses_nothing"]
    assert (long["outcome"], long["sent"], long["lost"]) == ("passed", 240, 0)
    assert (tmp_path / "docs" / "soak.md").read_text() == page(found)


@pytest.mark.parametrize("part", [("-k", "long"), ("test_faults_of_all_kinds.py",)])
def test_a_part_of_the_soak_tests_leaves_the_page_as_it_is(run, tmp_path, part):
    assert "1 passed" in run("--soak", *part)
    assert not (tmp_path / "docs" / "soak.md").exists()


def test_the_page_has_a_table_for_each_file_with_what_its_tests_recorded():
    counted = {"sent": 240, "answered": 239, "refused": 0, "cut": 1, "lost": 0}
    facts = {"date": "2026-11-22", "machine": "2 cores", "load_before": 0.5, "seconds": 1500}
    names = ("faults.py::test_a_kill[full]", "faults.py::test_growth", "scale.py::test_many_nodes")
    rows: list[dict[str, object]] = [
        {"test": f"soak/test_{name}", "outcome": "passed", "seconds": 9.6} for name in names
    ]
    rows[0] |= counted
    rows[1] |= {"outcome": "failed"}
    rows[2] |= {"figures": "1,000"}
    lines = page({**facts, "rows": rows}).splitlines()
    assert (
        "**2026-11-22**, 2 cores, load average 0.5 at the start: 2 of 3 tests passed in 25 minutes."
        in lines
    )
    at = lines.index("## Faults")
    assert lines[at + 2 : at + 6] == [
        "| test | result | duration | sent | answered | refused | cut | lost |",
        "|---|---|---|---|---|---|---|---|",
        "| a kill | passed | 10 s | 240 | 239 | 0 | 1 | 0 |",
        "| growth | failed | 10 s |  |  |  |  |  |",
    ]
    at = lines.index("## Scale")
    assert lines[at + 4] == "| many nodes | passed | 10 s | 1,000 |"
