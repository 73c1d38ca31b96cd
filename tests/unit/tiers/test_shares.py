"""Distribution of the unit tier over workers."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.tiers.shares import (
    LONGEST,
    has_compiled,
    is_shared,
    pytest_configure_node,
    pytest_ignore_collect,
    pytest_sessionstart,
    shares_of,
)
from twin.host.paths import REPOSITORY
from twin.pulumi.speedups.sdk_annotations import PostponedLoader

WORKERS = 3
FOLDERS = ("tests", "bench/tests", "simulator/tests", "twin/tests")


def asked(*args: str, tier: str = "not needs_tools", dist: str = "load") -> Any:
    return SimpleNamespace(
        args=args,
        invocation_params=SimpleNamespace(dir=REPOSITORY),
        option=SimpleNamespace(markexpr=tier, dist=dist),
    )


def worker(number: int, config: Any) -> Any:
    """Return the configuration of a worker."""
    told: dict[str, Any] = {"workerid": f"gw{number}", "workercount": WORKERS}
    node = SimpleNamespace(config=config, workerinput=told)
    pytest_configure_node(node)
    return SimpleNamespace(rootpath=REPOSITORY, workerinput=told, getini=lambda _: FOLDERS)


def files() -> list[Path]:
    folders = [REPOSITORY / each for each in ("tests/contract", "tests/unit", "twin/tests/unit")]
    return [file for folder in folders for file in folder.rglob("test_*.py")]


def test_every_test_file_is_collected_by_exactly_one_worker():
    workers = [worker(number, asked("tests")) for number in range(WORKERS)]
    for file in files():
        ignored = [pytest_ignore_collect(file, each) for each in workers]
        assert sorted(ignored, key=str) == [None, True, True], file


def test_each_worker_gets_as_many_files_of_the_unit_tier_as_the_others(tmp_path: Path):
    for name in ("a/test_1.py", "a/test_2.py", "b/test_3.py", "b/test_4.py", "b/test_5.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "a" / "test_10.py").write_text("pytestmark = pytest.mark.needs_tools\n")
    found = shares_of(tmp_path, (".",), 2)
    assert [file.name for file in found] == [f"test_{number}.py" for number in range(1, 6)]
    assert list(found.values()) == [0, 1, 0, 1, 0]


@pytest.mark.parametrize("count", [2, 3])
def test_the_longest_files_are_shared_out_evenly(count):
    found = shares_of(REPOSITORY, FOLDERS, count)
    spent = dict.fromkeys(range(count), 0.0)
    for name, seconds in LONGEST.items():
        spent[found[REPOSITORY / name]] += seconds
    assert max(spent.values()) - min(spent.values()) <= min(LONGEST.values())


def test_each_worker_loads_what_is_no_test_file():
    config = worker(0, asked("tests"))
    for name in ("conftest.py", "tests/contract/infra/cloud.py", "tests/unit"):
        assert pytest_ignore_collect(REPOSITORY / name, config) is None


@pytest.mark.parametrize(
    ("config", "shared"),
    [
        (asked(), True),
        (asked("tests/contract", "tests/unit"), True),
        (asked("tests/contract", tier="not needs_tools and not whole_stack"), True),
        (asked("tests/unit/tiers/test_shares.py"), False),
        (asked("tests/unit", tier="needs_tools"), False),
        (asked("tests/unit", tier=""), False),
        (asked("tests/unit", dist="loadgroup"), False),
    ],
)
def test_only_folders_of_the_unit_tier_are_shared_out(config, shared):
    assert is_shared(config) is shared
    file = REPOSITORY / "tests" / "unit" / "tiers" / "test_shares.py"
    ignored = [pytest_ignore_collect(file, worker(number, config)) for number in range(WORKERS)]
    assert ignored.count(True) == (WORKERS - 1 if shared else 0)


def test_without_workers_every_file_is_collected():
    config: Any = SimpleNamespace(rootpath=REPOSITORY)
    assert [file for file in files() if pytest_ignore_collect(file, config)] == []


class Worker:
    """What xdist registers in a worker."""

    def __init__(self) -> None:
        self.sent: list[object] = []

    def sendevent(self, name: str) -> None:
        self.sent.append(name)

    def pytest_runtest_logstart(self) -> None:
        self.sendevent("start")

    def pytest_runtest_logfinish(self) -> None:
        self.sendevent("finish")

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.sent.append((report.when, report.passed))


REPORTS = [(when, passed) for passed in (True, False) for when in ("setup", "call", "teardown")]


@pytest.mark.parametrize(
    ("option", "shares", "silent"),
    [
        ({}, True, {"start", "finish", ("setup", True), ("teardown", True)}),
        ({}, False, set()),
        ({"durations": 5}, True, set()),
        ({"xmlpath": "results.xml"}, True, set()),
        ({"verbose": 1}, True, set()),
    ],
)
def test_a_share_tells_of_each_call_and_of_every_fault(option, shares, silent):
    plugins, worker = pytest.PytestPluginManager(), Worker()
    plugins.register(worker)
    options = {"durations": None, "xmlpath": None, "verbose": 0} | option
    config = SimpleNamespace(
        workerinput={"shares": WORKERS} if shares else {},
        option=SimpleNamespace(**options),
        pluginmanager=plugins,
    )
    session: Any = SimpleNamespace(config=config)
    pytest_sessionstart(session)
    hook = plugins.hook
    hook.pytest_runtest_logstart(nodeid="", location=("", 0, ""))
    for when, passed in REPORTS:
        hook.pytest_runtest_logreport(report=SimpleNamespace(when=when, passed=passed))
    hook.pytest_runtest_logfinish(nodeid="", location=("", 0, ""))
    assert set(worker.sent) == {"start", "finish", *REPORTS} - silent


def test_a_file_of_an_sdk_is_compiled_once_its_loader_has_read_it(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    source = tmp_path / "never_imported" / "__init__.py"
    source.parent.mkdir()
    source.write_text("")
    assert not has_compiled("never_imported", "__init__.py")
    PostponedLoader("never_imported", str(source)).get_code("never_imported")
    assert has_compiled("never_imported", "__init__.py")
    assert not has_compiled("never_installed", "__init__.py")
