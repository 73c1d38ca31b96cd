"""A twin for one test, and the series that platforms on twins export."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from scripts.check.series import selectors_in
from tests.platform.observe.cases import series_of_cases
from tests.platform.observe.record import known_series
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


@pytest.fixture(scope="session")
def series_are_recorded(request: pytest.FixtureRequest) -> Callable[[TwinPaths, str], None]:
    """Give a function that fails if the tests of alerts do not know what a stack exports."""
    names = {name for _, text in series_of_cases() for name, _ in selectors_in(text)}
    is_recording = bool(request.config.getoption("--record-series"))
    return partial(known_series, names=names, is_recording=is_recording)
