"""How the running tier is spread over workers."""

import pytest

from tests.tiers.running import GROUPS, durations, group_of, memory_gib, place, workers
from twin.host.paths import REPOSITORY


@pytest.mark.parametrize(("gib", "count"), [(24.0, 2), (12.0, 2), (11.9, 1)])
def test_two_workers_run_where_there_is_memory_for_two(gib, count):
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
