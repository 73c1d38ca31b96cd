"""Distribution of the running tier over workers."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.tiers.running import (
    GROUPS,
    durations,
    group_of,
    memory_gib,
    place,
    pytest_ignore_collect,
    workers,
)
from twin.host.paths import REPOSITORY


@pytest.mark.parametrize(
    ("gib", "count"), [(64.0, 3), (18.0, 3), (17.9, 2), (12.0, 2), (11.9, 1), (4.0, 1)]
)
def test_up_to_three_workers_run_where_there_is_memory_for_them(gib, count):
    assert workers(gib) == count


def test_a_container_with_less_memory_than_its_machine_counts(tmp_path):
    whole = memory_gib(tmp_path / "missing")
    limit = tmp_path / "memory.max"
    for text, gib in (("1073741824\n", 1.0), ("max\n", whole)):
        limit.write_text(text)
        assert memory_gib(limit) == gib


def test_files_of_a_listed_folder_share_a_worker_and_begin_in_the_listed_order():
    folder = next(group for group in GROUPS if group.endswith("/"))
    assert group_of(f"{folder}test_one.py") == group_of(f"{folder}test_two.py") == folder
    other = group_of("tests/platform/other/test_new.py")
    assert other == "tests/platform/other/test_new.py"
    assert [place(group) for group in (*GROUPS, other)] == list(range(len(GROUPS) + 1))


@pytest.mark.parametrize(
    ("text", "running", "unit"),
    [
        ("pytestmark = pytest.mark.needs_tools\n", None, True),
        ("pytestmark = [pytest.mark.needs_tools, pytest.mark.timeout(9)]\n", None, True),
        ("@pytest.mark.needs_tools\ndef test_one(): ...\n", None, None),
        ("def test_one(): ...\n", True, None),
    ],
)
def test_a_file_is_imported_only_where_it_can_have_tests_of_the_tier(tmp_path, text, running, unit):
    file = tmp_path / "test_any.py"
    file.write_text(text)

    def ignored(marks, *, soak=False):
        options = {"--soak": soak, "markexpr": marks}
        config: Any = SimpleNamespace(getoption=options.get)
        return pytest_ignore_collect(file, config)

    assert ignored("needs_tools") is ignored("", soak=True) is running
    assert ignored("not needs_tools") is ignored("not needs_tools and not soak") is unit
    assert ignored("") is None  # whoever names a file gets its tests


@pytest.mark.parametrize("marks", ["needs_tools", "not needs_tools"])
def test_a_file_of_long_runs_only_is_imported_by_the_soak_tier_alone(tmp_path, marks):
    file = tmp_path / "test_any.py"
    file.write_text("pytestmark = [pytest.mark.needs_tools, pytest.mark.soak]\n")
    config: Any = SimpleNamespace(getoption={"--soak": False, "markexpr": marks}.get)
    assert pytest_ignore_collect(file, config) is True
    with_soak: Any = SimpleNamespace(getoption={"--soak": True, "markexpr": ""}.get)
    assert pytest_ignore_collect(file, with_soak) is None


def test_a_folder_whose_tests_all_need_tools_is_left_out_with_its_conftest(tmp_path):
    config: Any = SimpleNamespace(getoption={"--soak": False, "markexpr": "not needs_tools"}.get)
    assert pytest_ignore_collect(tmp_path, config) is None
    (tmp_path / "test_one.py").write_text("pytestmark = pytest.mark.needs_tools\n")
    assert pytest_ignore_collect(tmp_path, config) is True
    (tmp_path / "test_two.py").write_text("def test_two(): ...\n")
    assert pytest_ignore_collect(tmp_path, config) is None


def test_every_listed_group_exists():
    assert [group for group in GROUPS if not (REPOSITORY / group).exists()] == []


def test_a_group_takes_what_all_phases_of_its_tests_take():
    def report(nodeid, when, seconds):
        return pytest.TestReport(nodeid, ("", 0, ""), {}, "passed", None, when, duration=seconds)

    folder = next(group for group in GROUPS if group.endswith("/"))
    reports = [
        report("tests/other/test_short.py::test_it", "call", 2.0),
        report(f"{folder}test_one.py::test_it", "setup", 40.0),
        report(f"{folder}test_two.py::test_it[a::b]", "call", 3.0),
        "a warning is among them too",
    ]
    assert durations(reports) == [(43.0, folder), (2.0, "tests/other/test_short.py")]


def test_a_soak_run_collects_every_file_with_a_soak_test():
    config: Any = SimpleNamespace(getoption={"--soak": True, "markexpr": ""}.get)
    folders = [
        REPOSITORY / each for each in ("tests", "bench/tests", "twin/tests", "simulator/tests")
    ]
    files = [file for folder in folders for file in folder.rglob("test_*.py")]
    soaked = [file for file in files if "@pytest.mark.soak" in file.read_text()]
    assert REPOSITORY / "twin/tests/running/gcp/test_engine.py" in soaked
    assert [file for file in soaked if pytest_ignore_collect(file, config)] == []
