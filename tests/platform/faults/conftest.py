"""Fixtures of the fault tests."""

from collections.abc import Callable

import pytest

from simulator.traffic import Report
from tests.platform.faults.rig import NO_L4, NO_OTHER_TPU, TPU, Platform, counts


@pytest.fixture(scope="module")
def platform(tmp_path_factory):
    made = Platform(tmp_path_factory.mktemp("faults"))
    try:
        made.bring_up(TPU, NO_OTHER_TPU, NO_L4)
        yield made
    finally:
        made.close()


@pytest.fixture
def settled_platform(platform):
    platform.settle()
    return platform


@pytest.fixture(
    params=[pytest.param(0, id="short"), pytest.param(1, id="full", marks=pytest.mark.soak)]
)
def length(request) -> Callable[[float, float], float]:
    """Picks how long a load lasts, in seconds: (short, full). The full length is a soak test."""
    return lambda short, full: (short, full)[request.param]


@pytest.fixture
def say(record_property) -> Callable[[Report], None]:
    """Records what a fault cost, for the page of a soak run."""

    def _say(report: Report) -> None:
        for name, number in counts(report).items():
            record_property(name, number)

    return _say
