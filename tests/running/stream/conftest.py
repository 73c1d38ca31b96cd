"""The processes of a test, ended behind it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.running.stream.world import PubSub
from twin.engines.stream_worker import stream_environment


@pytest.fixture(scope="session", autouse=True)
def environment() -> None:
    """Install what the worker runs with, once a user."""
    stream_environment().install(lambda _: None)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[PubSub]:
    made = PubSub(tmp_path)
    try:
        yield made
    finally:
        made.stop()
