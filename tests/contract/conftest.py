"""Fixtures of the contract tests: a recorder that stands in for the Pulumi engine."""

import asyncio
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.contract.recorder import Recorder


@pytest.fixture(scope="session")
def engine_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """One event loop for all programs: Pulumi's root resource lives in the first one it sees."""
    from tests.contract.recorder import event_loop  # noqa: PLC0415 - not before the workers start
    from twin.pulumi.speedups import speed_up_program  # noqa: PLC0415 - as above

    speed_up_program(shows_debugging=False)
    loop = event_loop()
    asyncio.set_event_loop(loop)
    yield loop
    asyncio.set_event_loop(None)
    loop.close()


@pytest.fixture
def engine(engine_loop: asyncio.AbstractEventLoop) -> "Callable[[], Recorder]":
    """Makes a fresh engine stand-in each time it is called, for a test that needs two."""
    from tests.contract.recorder import Recorder, install  # noqa: PLC0415 - as above

    return lambda: install(Recorder(), engine_loop)


@pytest.fixture
def recorder(engine: "Callable[[], Recorder]") -> "Recorder":
    """A fresh engine stand-in."""
    return engine()
