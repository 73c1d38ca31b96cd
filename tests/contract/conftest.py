"""Fixtures of the contract tests: a recorder that stands in for the Pulumi engine."""

import asyncio
import gc
from collections.abc import Callable, Iterator

import pytest

from tests.contract.recorder import Recorder, event_loop, install
from twin.pulumi.speedups import speed_up_program

# The SDKs are a million objects that stay. Looking through them again and again was a third of the
# time of tests that build a whole platform.
gc.set_threshold(100_000, 20, 100)


def pytest_collection_finish() -> None:
    """Leaves what the test files loaded to itself."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def engine_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """One event loop for all programs: Pulumi's root resource lives in the first one it sees."""
    speed_up_program(shows_debugging=False)
    loop = event_loop()
    asyncio.set_event_loop(loop)
    yield loop
    asyncio.set_event_loop(None)
    loop.close()


@pytest.fixture
def engine(engine_loop: asyncio.AbstractEventLoop) -> Callable[[], Recorder]:
    """Makes a fresh engine stand-in each time it is called, for a test that needs two."""
    return lambda: install(Recorder(), engine_loop)


@pytest.fixture
def recorder(engine: Callable[[], Recorder]) -> Recorder:
    """A fresh engine stand-in."""
    return engine()
