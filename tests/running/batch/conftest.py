"""The processes of a test, ended behind it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.running.batch.world import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    try:
        yield made
    finally:
        made.stop()
