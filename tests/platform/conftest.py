"""A twin for one test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from twin import daemon
from twin.host import processes
from twin.host.paths import TwinPaths


@pytest.fixture
def paths(tmp_path: Path) -> Iterator[TwinPaths]:
    """Give a twin's folder; nothing of the twin runs after the test."""
    paths = TwinPaths(tmp_path / "twin")
    yield paths
    daemon.shut_down(paths)
    assert processes.running(paths) == {}
