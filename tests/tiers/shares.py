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
LONGEST = {
    "tests/contract/infra/test_program.py": 6.6,
    "tests/contract/invariants/test_cases.py": 3.3,
    "tests/contract/infra/test_layers.py": 2.0,
    "tests/contract/infra/test_bootstrap_program.py": 1.9,
    "tests/contract/components_k8s/test_gateway.py": 1.9,
    "tests/contract/infra/test_broken_stacks.py": 1.9,
    "tests/contract/serving/test_model_server.py": 1.6,
    "tests/contract/infra/test_schema.py": 1.4,
    "tests/contract/infra/test_edit.py": 1.3,
    "tests/contract/serving/test_free_text.py": 1.3,
    "tests/contract/infra/test_mutated_stacks.py": 1.0,
    "tests/contract/components_gcp/test_plugin.py": 1.0,
}
"""Seconds of the longest files of `make test-contract`, whose two shares took 24 and 16 s in turns.

They are from `pytest -n 0 --durations=0 -vv`. A figure that is out of date only makes shares less
equal."""
_SDK = ("pulumi_gcp", "compute/_inputs.py")
"""A file that is compiled if the others of the SDKs are."""
_PROGRAM = ("gke_inference.plugin", "infra.deploy.program")
"""Modules that import all the parts of the SDKs that tests need."""


@cache
def shares_of(root: Path, folders: tuple[str, ...], count: int) -> dict[Path, int]:
    """Return the share of each test file of the unit tier below some folders of a repository.

    The longest files go one after the other to the share with the least to do. The others are in
    the order of their paths and shares take turns, because neighbors take about as long: of shares
    by a hash of the path, the longest of three took 1.26 times the mean.
    """
    files = {file for folder in folders for file in (root / folder).rglob("test_*.py")}
    named = sorted(file for file in files if not has_no_unit_test(file))
    shares: dict[Path, int] = {}
    spent = [0.0] * count
    for file in (root / each for each in LONGEST):
        if file in files:
            shares[file] = spent.index(min(spent))
            spent[shares[file]] += LONGEST[file.relative_to(root).as_posix()]
    others = [file for file in named if file not in shares]
    return shares | {file: place % count for place, file in enumerate(others)}


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
    found = shares_of(config.rootpath, tuple(config.getini("testpaths")), told[_SHARES])
    worker = int(told["workerid"].removeprefix("gw"))
    return None if found.get(collection_path, 0) == worker else True


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
