"""Setup of all tests, before any of them imports a console, and the budget of a run."""

import gc
import importlib.util
import os
import socketserver
import sys
import time
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

# a test must not fail because other work keeps the cores busy
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

# Hypothesis would parse each module that a worker has imported, for seconds, and now and then try a
# constant of one: other examples on each worker. It has no setting for this
mock.patch.object(providers, "_get_local_constants", return_value=providers.Constants()).start()

# jsonschema loads it for a format that no schema has, and it makes 38 parsers, for seconds of it
sys.modules["rfc3987_syntax"] = None  # pyrefly: ignore[bad-assignment, unsupported-operation]

# three workers share two cores: with threads of its own, each waits in a loop for the others
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# readline, which pytest loads, sets a width for the workers, which would wrap piped output
os.environ.pop("COLUMNS", None)

gc.disable()  # until the tests are loaded, see below
# the SDKs have a module for each resource, but tests need few: this halves the collection time;
# the interpreter with JAX has no SDKs
if importlib.util.find_spec("pulumi"):
    importlib.import_module("twin.pulumi.speedups").speed_up_imports()

pytest_plugins = ["tests.tiers.running", "tests.tiers.shares", "tests.tiers.soak"]
_STARTED = pytest.StashKey[float]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--budget`, which the Makefile gives to each tier, and `--record-series`."""
    parser.addoption(
        "--budget",
        type=float,
        metavar="SECONDS",
        help="Print the duration of the run beside this budget, for 2 idle cores.",
    )
    parser.addoption(
        "--record-series",
        action="store_true",
        help="Record the series that running platforms export, for the tests of alerts.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Start the clock of the run."""
    config.stash[_STARTED] = time.monotonic()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Disable garbage collection for tests that need no tools.

    The SDKs are a million objects that stay, and each resource of a program leaves 60 kB. To look
    through them again and again was a third of the time of tests that build a whole platform.
    """
    from tests.tiers.running import is_without_tools  # noqa: PLC0415 - pytest loads it as a plugin

    gc.freeze()
    if not is_without_tools(session.config.getoption("markexpr")):
        gc.set_threshold(100_000, 20, 100)
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Leave all objects to the end of the process: to free them takes seconds."""
    gc.freeze()


# a server looks this often whether it has to end, every 0.5 s by default, and its test waits for it
socketserver.BaseServer.serve_forever.__defaults__ = (0.02,)

_printed = socketserver.BaseServer.handle_error


def _handle_error(self: socketserver.BaseServer, request: Any, client_address: Any) -> None:
    if not isinstance(sys.exception(), ConnectionError):
        _printed(self, request, client_address)


# clients that disconnect from a test server would print tracebacks into the results; some
# disconnect when the interpreter exits, after every fixture
socketserver.BaseServer.handle_error = _handle_error


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print the duration of a run with its budget; a slow machine does not fail a test."""
    budget = config.getoption("--budget")
    if budget is None:
        return
    took = time.monotonic() - config.stash[_STARTED]
    word = "within" if took <= budget else "over"
    load = os.getloadavg()[0]
    terminalreporter.section("budget")
    terminalreporter.write_line(
        f"{took:.0f} s, {word} the budget of {budget:.0f} s on 2 idle cores (load now {load:.1f})"
    )
