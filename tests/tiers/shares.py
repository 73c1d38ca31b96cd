"""The unit tier on several workers: each collects and runs only its share of the files.

With xdist's own distributions each worker imports every test file, and a fixture of a file is set
up on each worker that gets one of its tests.
"""

import importlib.util
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.tiers.running import has_no_unit_test, is_without_tools

_SHARES = "shares"
"""Key of what a worker is told: the number of shares."""
_SDK = ("pulumi_gcp", "compute/_inputs.py")
"""A file that is compiled if the others of the SDKs are."""
_PROGRAM = ("gke_inference.plugin", "infra.deploy.program")
"""Modules that import all the parts of the SDKs that tests need."""


@cache
def places(folders: tuple[Path, ...]) -> dict[Path, int]:
    """Return the place of each test file of the unit tier below some folders.

    Files are in the order of their paths and shares take turns, because neighbors take about as
    long: of shares by a hash of the path, the longest of three took 1.26 times the mean, of these
    1.06 times.
    """
    files = {file for folder in folders for file in folder.rglob("test_*.py")}
    named = sorted(file for file in files if not has_no_unit_test(file))
    return {file: place for place, file in enumerate(named)}


def is_shared(config: pytest.Config) -> bool:
    """Return whether workers run shares: in the unit tier, if folders are asked for.

    A file that is named on the command line is never ignored, so each worker would run it.
    """
    option = config.option
    tier = is_without_tools(option.markexpr) and option.dist == "load"
    return tier and all((config.invocation_params.dir / each).is_dir() for each in config.args)


def has_compiled(package: str, file: str) -> bool:
    """Return whether a file of an SDK that is installed was compiled; imports nothing of the SDK.

    Args:
        package: Package of the SDK.
        file: Its path in the package.
    """
    spec = importlib.util.find_spec(package)
    folders = spec.submodule_search_locations if spec else None
    if not folders:
        return False
    # not where JAX is, without SDKs
    from twin.pulumi.speedups.sdk_annotations import bytecode_of  # noqa: PLC0415

    return bytecode_of(Path(folders[0], file)).exists()


def pytest_configure(config: pytest.Config) -> None:
    """Compile the SDKs once in a new environment, instead of on all workers at the same time."""
    if not hasattr(config, "workerinput") and config.getoption("tx", []) and is_shared(config):
        config.option.maxworkerrestart = (
            "0"  # another worker would not have the share of a dead one
        )
        if not has_compiled(*_SDK):
            for name in _PROGRAM:
                importlib.import_module(name)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker that it runs a share."""
    if is_shared(node.config):
        node.workerinput[_SHARES] = node.workerinput["workercount"]


def pytest_sessionstart(session: pytest.Session) -> None:
    """Let a worker with a share tell only what is printed, unless more is asked for."""
    config = session.config
    if _SHARES in getattr(config, "workerinput", {}) and not (
        config.option.durations or config.option.xmlpath or config.option.verbose > 0
    ):
        tell_less(config.pluginmanager)


def tell_less(plugins: pytest.PytestPluginManager) -> None:
    """Send the other process one report of a test that passes, instead of five messages.

    Each takes both processes 0.2 ms.
    """
    worker: Any = next(each for each in plugins.get_plugins() if hasattr(each, "sendevent"))
    plugins.unregister(worker)
    tell = worker.pytest_runtest_logreport

    def of_a_call_or_fault(report: pytest.TestReport) -> None:
        if report.when == "call" or not report.passed:
            tell(report=report)

    worker.pytest_runtest_logreport = of_a_call_or_fault
    worker.pytest_runtest_logstart = worker.pytest_runtest_logfinish = None
    plugins.register(worker)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out test files of the other shares."""
    told: dict[str, Any] = getattr(config, "workerinput", {})
    if _SHARES not in told or not _is_test_file(collection_path):
        return None
    found = places(tuple(config.rootpath / each for each in config.getini("testpaths")))
    worker = int(told["workerid"].removeprefix("gw"))
    return None if found.get(collection_path, 0) % told[_SHARES] == worker else True


def _is_test_file(path: Path) -> bool:
    return path.name.startswith("test_") and path.suffix == ".py"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object | None:
    """Let each worker run what it has collected, in the unit tier."""
    if not is_shared(config):
        return None
    from xdist.scheduler import EachScheduling  # noqa: PLC0415 - not where JAX is

    class Shares(EachScheduling):
        def add_node_collection(self, node: Any, collection: Any) -> None:
            super().add_node_collection(node, collection)
            running: Any = config.pluginmanager.getplugin("dsession")
            # xdist sets it to the last share, which may be empty
            running._session.testscollected = sum(map(len, self.node2collection.values()))

    return Shares(config, log)
