"""The gateway of a test, ended behind it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.running.callout.world import World, key_entry


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    made.servers.keys = {"keys": [key_entry("ada", "research"), key_entry("bob", "web")]}
    try:
        yield made
    finally:
        made.stop()
