"""The relay of a test, ended behind it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.running.relay.world import Relay


@pytest.fixture
def relay(tmp_path: Path) -> Iterator[Relay]:
    made = Relay(tmp_path)
    try:
        yield made
    finally:
        made.close()
