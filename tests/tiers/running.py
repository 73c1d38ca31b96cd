"""The running tier on several workers: which tests share one, and which of them begin first.

Tests that share a control plane or a deployed platform stay on one worker, so that it is brought up
once. Workers take the groups in order; with the longest first, all end at about the same time.
"""

import os
import re
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest

GROUPS = (
    "tests/platform/whole/",
    "tests/diffusion/",
    "tests/platform/batch/",
    "twin/tests/running/gateway/",
    "tests/preview/",
    "twin/tests/running/queues/",
    "twin/tests/running/agent/",
    "tests/platform/bootstrap/",
    "tests/platform/faults/test_pictures.py",
    "twin/tests/running/kubernetes/",
    "tests/platform/backends/",
    "twin/tests/running/cluster/",
    "tests/platform/examples/",
    "twin/tests/running/front/",
    "tests/running/batch/test_batches.py",
    "tests/xla/",
    "twin/tests/running/gcp/",
    "twin/tests/running/groups/",
    "tests/platform/weights/test_weights_job.py",
    "tests/running/engine/test_nodes.py",
    "tests/platform/images/test_first_step.py",
    "tests/running/test_go_programs.py",
    "tests/platform/tutorial/test_rehearsal.py",
    "tests/running/stream/test_pubsub.py",
    "tests/running/callout/test_budget_faults.py",
    "tests/running/diffusion/test_server.py",
    "tests/platform/observe/test_recorded_series.py",
    "bench/tests/running/laboratory/test_lockstep.py",
    "tests/running/callout/test_cancelled.py",
    "tests/running/guardrails/test_guarded_gateway.py",
    "tests/contract/serving/test_images.py",
)
"""Folders and files whose tests share a worker; any other file is a group.

The longest first, but no three deployed platforms in a row: two use both cores.
"""

_MARK = "needs_tools"
_SOAK = "mark.soak"
_WHOLE = re.compile(rf"^pytestmark = \[?pytest\.mark\.{_MARK}\b", re.MULTILINE)
"""A file whose tests all have the mark; one that lists it later is imported for nothing."""
_ALL_SOAK = re.compile(rf"^pytestmark = .*\b{_SOAK}\b", re.MULTILINE)
_MOST_WORKERS = 3
"""On two cores: tests wait for about a third of their time."""
_LINES = 40
"""Of a failure whose test was run again; the second failure may only show what the first left."""
_GIB_PER_WORKER = 6.0
_MEMORY_LIMIT = Path("/sys/fs/cgroup/memory.max")


def memory_gib(limit: Path = _MEMORY_LIMIT) -> float:
    """Return the memory of this machine, or of the container if that has less, in GiB."""
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, ValueError):  # no container, or "max"
        whole = min(whole, int(limit.read_text()))
    return whole / 2**30


def workers(gib: float) -> int:
    """Return how many workers `-n auto` means; each may have a platform with a dozen engines."""
    return max(1, min(_MOST_WORKERS, int(gib / _GIB_PER_WORKER)))


def group_of(path: str) -> str:
    """Return the group of a test file, by its path from the repository's root."""
    return next((group for group in GROUPS if path.startswith(group)), path)


def place(group: str) -> int:
    """Return where in the order a group begins; what is not listed is short and comes last."""
    return GROUPS.index(group) if group in GROUPS else len(GROUPS)


def is_without_tools(marks: str | None) -> bool:
    """Return whether the expression of a tier, as of `-m`, leaves out what needs tools."""
    return (marks or "").startswith(f"not {_MARK}")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import only files that can have tests of the tier that is asked for.

    Of the running tier: those that name its mark, and are not long runs as a whole. Of the soak
    tier: those that name this mark or that of the soak tier. Of the unit tier: those whose tests do
    not all need tools or take long, and no conftest of a folder without such a file.
    """
    asked = config.getoption("markexpr")
    unit = is_without_tools(asked)
    if unit and collection_path.is_dir():
        files = list(collection_path.rglob("test_*.py"))
        return True if files and all(map(has_no_unit_test, files)) else None
    if collection_path.suffix != ".py" or collection_path.name == "conftest.py":
        return None
    if config.getoption("--soak") or asked == _MARK:
        text = collection_path.read_text()
        if config.getoption("--soak"):
            return None if _MARK in text or _SOAK in text else True
        return None if _MARK in text and not _ALL_SOAK.search(text) else True
    if unit and collection_path.name.startswith("test_"):
        return has_no_unit_test(collection_path) or None
    return None


@cache
def has_no_unit_test(file: Path) -> bool:
    """Return whether no test of a file is of the unit tier; each folder above it asks."""
    text = file.read_text()
    return bool(_WHOLE.search(text) or _ALL_SOAK.search(text))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Choose the number of workers by memory, for `-n auto`."""
    return workers(memory_gib())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the tests that need tools behind all others, in the order of their groups."""

    def rank(item: pytest.Item) -> int:
        if item.get_closest_marker(_MARK) is None:
            return -1
        return place(group_of(item.path.relative_to(config.rootpath).as_posix()))

    items.sort(key=rank)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object | None:
    """Give the workers whole groups, for `--dist loadgroup`.

    xdist 3.8 sends a group as a part of the ids of its tests, and pytest 9.2 has those fixed.
    """
    if config.getoption("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling  # noqa: PLC0415 - not where JAX is

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid.split("::", maxsplit=1)[0])

    config.option.loadscopereorder = False  # as collected: the longest first
    return Groups(config, log)


def durations(reports: Iterable[object]) -> list[tuple[float, str]]:
    """Return what each group took in seconds with its set-up and end, and its name; longest first.

    Args:
        reports: of every phase of every test; anything else among them is left out.
    """
    seconds = defaultdict[str, float](float)
    for report in reports:
        if isinstance(report, pytest.TestReport):
            seconds[group_of(report.nodeid.split("::", maxsplit=1)[0])] += report.duration
    return sorted(((spent, group) for group, spent in seconds.items()), reverse=True)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print why tests ran twice, and what the groups took, which is what `GROUPS` is ordered by."""
    reruns = terminalreporter.getreports("rerun")
    if reruns:
        terminalreporter.section("why tests ran again")
    for report in reruns:
        terminalreporter.write_line(report.nodeid, bold=True)
        terminalreporter.write_line("\n".join(report.longreprtext.splitlines()[-_LINES:]))
    if config.getoption("dist", "no") != "loadgroup":
        return
    terminalreporter.section("groups")
    reports = [report for reports in terminalreporter.stats.values() for report in reports]
    for spent, group in durations(reports):
        terminalreporter.write_line(f"{spent:6.0f} s  {group}")
