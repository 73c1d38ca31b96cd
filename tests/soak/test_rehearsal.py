"""Scenarios on the running twin, and what a rehearsal says about them.

The short form is `tests/contract/infra/test_rehearsal.py`, with recorded timelines.
"""

import json

import pytest

from infra.plan import resolve
from infra.reading.load import read
from scripts.develop.twin_timeline import recorded
from scripts.rehearse.describe import describe
from scripts.shared.engine import Engine
from scripts.shared.preview_states import manifests, preview_states
from tests.contract.infra.rehearsed_scenario import rehearsed, share_within
from tests.platform.example_checkout import output_of
from twin import daemon
from twin.host.paths import REPOSITORY, TwinPaths

pytestmark = [pytest.mark.needs_tools, pytest.mark.soak, pytest.mark.timeout(2400)]


@pytest.fixture(scope="module")
def described():
    states = preview_states(Engine(TwinPaths.default()), "local")
    return describe(resolve(read("local")), manifests(states), states).platform


@pytest.mark.parametrize("name", ["burst", "spot-preemption", "tpu-stockout", "zone-loss"])
def test_a_rehearsal_has_the_replicas_and_refusals_of_the_twin(
    described, name, tmp_path, record_property
):
    paths = TwinPaths(tmp_path / "twin")
    try:
        output_of(REPOSITORY, paths, "up", "--stack", "local", "--scenario", name)
        timeline = json.loads(json.dumps(recorded(paths, "local", name)))
        output_of(REPOSITORY, paths, "down")
    finally:
        daemon.shut_down(paths)
    found = rehearsed(described, name, timeline)
    shares = share_within(found, timeline["ready"])
    (outcome,) = found.outcomes.values()
    asked = timeline.get("client") or timeline["requests"]
    least = min(shares.values())
    record_property(
        "figures",
        f"{name}: replicas within one for {least:.0%} of the time; refused on the twin "
        f"{asked['refused']}, in the rehearsal {outcome.refused}",
    )
    assert least >= 0.95, shares
    assert outcome.refused == pytest.approx(asked["refused"], rel=0.1, abs=1)
