"""Fixtures of the tests of fronts."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from twin.tests.running.gateway.house import House, called, chain, traffic


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[House]:
    """A regional gateway with a traffic extension."""
    found = House(tmp_path / "gateway")
    found.program(traffic(chain("all", called("guard"))))
    yield found
    found.close()
