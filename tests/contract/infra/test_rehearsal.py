"""A stack becomes a rehearsal, which does what the twin did under the same traffic and fault.

The timelines are files of `scripts.develop.twin_timeline`.
"""

import json
from pathlib import Path

import pytest

from infra.plan import resolve
from infra.stack import Platform
from scripts.rehearse.describe import describe
from simulator.rehearsal.engines import engines_of
from simulator.rehearsal.run import Rehearsal
from tests.contract.infra.registered import state
from tests.contract.infra.rehearsed_scenario import (
    as_on_twin,
    client_of,
    gap_seconds,
    share_within,
    traffic_of,
)
from tests.contract.infra.resolved import stack
from twin.providers.kubernetes.manifests.objects import to_object
from twin.world import scenario as scenarios

TIMELINES = Path(__file__).with_name("timelines")
MODEL = "llama-3.1-8b"


def described(platform: Platform, deployed):
    plan = resolve(platform)
    made = deployed(platform).registrations
    objects = {}
    for seen in made:
        if seen.type.startswith("kubernetes:") and "kind" in seen.inputs:
            region = next(name for name in plan.regions if name in seen.provider)
            cluster = plan.regions[region].cluster_name
            objects.setdefault(cluster, []).append(to_object(seen.inputs))
    return describe(plan, objects, [state("stack", seen) for seen in made])


@pytest.fixture
def local(deployed):
    return described(stack("local"), deployed).platform


def rehearsed(local, name, timeline):
    scenario = scenarios.load(scenarios.find(name))
    platform = as_on_twin(local, scenario, timeline["start_seconds"], timeline["speed"])
    if scenario.traffic is None:
        traffic = client_of(scenario, MODEL, timeline["speed"])
    else:
        traffic = traffic_of(scenario, MODEL)
    found = Rehearsal(platform, traffic, engines_of(platform))
    found.run()
    return found


def timeline_of(name):
    return json.loads((TIMELINES / f"{name}.json").read_text())


def test_a_burst_has_the_replicas_and_refusals_of_the_twin(local):
    timeline = timeline_of("burst")
    found = rehearsed(local, "burst", timeline)
    shares = share_within(found, timeline["ready"])
    assert all(share >= 0.95 for share in shares.values()), shares
    (outcome,) = found.outcomes.values()
    asked = timeline["requests"]
    assert (outcome.sent, outcome.answered, outcome.refused) == (
        asked["sent"], asked["answered"], asked["refused"],
    )  # fmt: skip


def test_a_stockout_of_tpus_has_the_replicas_and_the_gap_of_the_twin(local):
    timeline = timeline_of("tpu-stockout")
    found = rehearsed(local, "tpu-stockout", timeline)
    shares = share_within(found, timeline["ready"])
    assert all(share >= 0.95 for share in shares.values()), shares
    assert gap_seconds(found) == pytest.approx(timeline["gap_seconds"], rel=0.1)
