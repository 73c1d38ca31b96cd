"""Selection, records and output of a soak run."""

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.tiers.soak import PAGE, RESULTS, page, recorded, update
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


GONE = {"test": "test_gone.py::test_gone", "outcome": "passed", "machine": "2 cores", "load": 0.1}
LONG_AGO = "2026-01-01"


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Return the folder of a project with one short and two long tests."""
    folder = tmp_path_factory.mktemp("project")
    (folder / PAGE).parent.mkdir()
    (folder / RESULTS).parent.mkdir(parents=True)
    (folder / "test_faults_of_all_kinds.py").write_text(TESTS)
    (folder / "pytest.ini").write_text("[pytest]\ntestpaths = .\nmarkers = soak: long\n")
    return folder


def run(folder, *options):
    """Run pytest on the project, after rows of long ago, and return its last line."""
    old = [GONE, *results(folder).values()]
    (folder / RESULTS).write_text(json.dumps([{**row, "date": LONG_AGO} for row in old]))
    answer = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "tests.tiers.soak", *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return answer.stdout.splitlines()[-1]


def results(folder):
    """Return the recorded rows by the name of their test."""
    return {row["test"].split("::")[1].removeprefix("test_"): row for row in recorded(folder)}


@pytest.fixture(scope="module")
def whole(project):
    """Return the last line of a run of all soak tests, and the rows after it."""
    return run(project, "--soak"), results(project)


def test_without_the_option_no_long_test_runs(project):
    assert run(project).startswith("1 passed, 2 deselected")
    assert list((project / "docs").iterdir()) == []


def test_a_soak_run_writes_what_it_found_failures_too(project, whole):
    said, rows = whole
    assert said.startswith("1 failed, 1 passed, 1 deselected")
    assert rows["one_that_fails"]["outcome"] == "failed"
    long = rows["a_long_one_loses_nothing"]
    assert (long["outcome"], long["sent"], long["lost"]) == ("passed", 240, 0)
    assert (project / PAGE).read_text() == page(sorted(rows.values(), key=lambda row: row["test"]))


def test_a_run_of_all_forgets_the_tests_that_no_longer_exist(whole):
    _, rows = whole
    assert set(rows) == {"a_long_one_loses_nothing", "one_that_fails"}


def test_a_part_of_the_soak_tests_replaces_its_own_rows_only(project, whole):
    assert "1 passed" in run(project, "--soak", "-k", "long")
    kept = {name for name, row in results(project).items() if row["date"] == LONG_AGO}
    assert kept == {"gone", "one_that_fails"}
    assert set(results(project)) == kept | {"a_long_one_loses_nothing"}


def test_a_file_that_cannot_be_read_keeps_its_rows(project, whole):
    broken = project / "test_gone.py"
    broken.write_text("import a_module_that_is_not_there\n")
    run(project, "--soak", "--continue-on-collection-errors")
    broken.unlink()
    assert "gone" in results(project)


def test_a_run_of_a_file_forgets_the_tests_that_it_no_longer_has(project, whole):
    file = "test_faults_of_all_kinds.py"
    renamed = {**GONE, "test": f"{file}::test_renamed", "date": LONG_AGO}
    update(lambda rows: [*rows, renamed], project)
    run(project, "--soak", f"{file}::test_one_that_fails")
    assert "renamed" in results(project)
    run(project, "--soak", file)
    assert set(results(project)) == {"gone", "a_long_one_loses_nothing", "one_that_fails"}


def test_runs_at_the_same_time_keep_the_rows_of_each_other(tmp_path):
    for file in (RESULTS, PAGE):
        (tmp_path / file).parent.mkdir(parents=True)

    def record(number):
        row = {**GONE, "test": f"test_a.py::test_{number}", "date": LONG_AGO}

        def add(rows):
            time.sleep(0.02)  # others read meanwhile, if they may
            return [*rows, row]

        update(add, tmp_path)

    with ThreadPoolExecutor(4) as runs:
        list(runs.map(record, range(8)))
    assert set(results(tmp_path)) == {str(number) for number in range(8)}


def test_the_page_has_a_table_for_each_file_with_what_its_tests_recorded():
    counted = {"sent": 240, "answered": 239, "refused": 0, "cut": 1, "lost": 0}
    names = ("faults.py::test_a_kill[full]", "faults.py::test_growth", "scale.py::test_many_nodes")
    facts = {"outcome": "passed", "date": "2026-11-22", "machine": "2 cores", "load": 0.5}
    rows: list[dict[str, object]] = [
        {"test": f"soak/test_{name}", "seconds": 900.0, **facts} for name in names
    ]
    rows[0] |= counted
    rows[1] |= {"outcome": "failed"}
    rows[2] |= {"figures": "1,000"}
    lines = page(rows).splitlines()
    assert "2 of 3 tests passed, in 0.8 hours." in lines
    at = lines.index("## Faults")
    run = "2026-11-22 | 2 cores | 0.5 | 900 s"
    assert lines[at + 2 : at + 6] == [
        "| test | result | date | machine | load | duration "
        "| sent | answered | refused | cut | lost |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
        f"| a kill | passed | {run} | 240 | 239 | 0 | 1 | 0 |",
        f"| growth | failed | {run} |  |  |  |  |  |",
    ]
    at = lines.index("## Scale")
    assert lines[at + 4] == f"| many nodes | passed | {run} | 1,000 |"


def test_the_page_in_the_repository_has_the_results_in_the_repository():
    assert (REPOSITORY / PAGE).read_text() == page(recorded(REPOSITORY))
