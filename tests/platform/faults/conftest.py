"""Fixtures of the fault tests."""

import json

import pytest

from simulator.traffic import Report
from tests.platform.faults.rig import NO_L4, NO_OTHER_TPU, TPU, Platform, counts
from twin.host.paths import REPOSITORY


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


@pytest.fixture(scope="module")
def costs():
    """What each fault cost, written to build/bench/faults.json at the end."""
    rows: list[dict[str, object]] = []
    yield rows
    file = REPOSITORY / "build" / "bench" / "faults.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(rows, indent=1) + "\n")


@pytest.fixture
def say(request, costs):
    """Writes down what a fault cost."""

    def _say(report: Report) -> None:
        errors = report.summary().errors
        costs.append({"fault": request.node.name, **counts(report), "errors": errors})

    return _say
