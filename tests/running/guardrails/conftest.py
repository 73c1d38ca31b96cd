"""A gateway with the callout, and a guard that the tests share, as it is slow to start."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.running.callout.world import World, key_entry
from tests.running.guardrails.guard import Guard


@pytest.fixture(scope="session")
def guard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guard]:
    made = Guard(tmp_path_factory.mktemp("guard"))
    yield made
    made.kill()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    made.servers.keys = {"keys": [key_entry("ada", "research"), key_entry("bob", "web")]}
    try:
        yield made
    finally:
        made.stop()
