"""A stack becomes a rehearsal, which does what the twin did under the same traffic and fault.

The timelines are files of `scripts.develop.twin_timeline`.
"""

import json
import re
from pathlib import Path

import pytest
import yaml

from infra.estimate.stack_cost import stack_cost
from infra.plan import resolve
from infra.reading.load import STACKS, parse, platform_of
from infra.stack import Platform
from scripts.rehearse.changes import with_changes
from scripts.rehearse.describe import describe
from scripts.rehearse.rates import team_shares
from scripts.rehearse.result import spent_by
from scripts.terminal.console import CommandError
from simulator.demand.default_day import default_day
from simulator.rehearsal.changes import Rolling, Surge, Upgrades
from simulator.rehearsal.description import START
from simulator.rehearsal.engines import engines_of
from simulator.rehearsal.run import Rehearsal
from tests.contract.infra.registered import state
from tests.contract.infra.rehearsed_scenario import (
    EVENTS,
    EVENTS_TRAFFIC,
    canary_shares,
    of_events,
    rehearsed,
    share_within,
    shares_of_rehearsal,
)
from tests.contract.infra.resolved import stack
from twin.providers.kubernetes.manifests.objects import to_object

TIMELINES = Path(__file__).with_name("timelines")
EXAMPLES = STACKS.parent / "docs" / "examples"


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


@pytest.mark.parametrize("name", ["spot-preemption", "tpu-stockout", "zone-loss"])
def test_a_fault_has_the_replicas_and_refusals_of_the_twin(local, name):
    timeline = timeline_of(name)
    found = rehearsed(local, name, timeline)
    shares = share_within(found, timeline["ready"])
    assert all(share >= 0.95 for share in shares.values()), shares
    (outcome,) = found.outcomes.values()
    assert outcome.refused == pytest.approx(timeline["client"]["refused"], rel=0.1, abs=1)


def test_the_loss_of_a_region_has_the_replicas_and_failures_of_the_twin(deployed):
    timeline = timeline_of("region-loss")
    example = EXAMPLES / "three-regions" / "Pulumi.three-regions.yaml"
    platform = described(parse(json.dumps(platform_of(example))), deployed).platform
    found = rehearsed(platform, "region-loss", timeline)
    shares = share_within(found, timeline["ready"], most=0)  # of one replica in each region
    assert len(shares) == 3
    assert all(share >= 0.9 for share in shares.values()), shares
    requests = timeline["requests"]
    assert sum(one.sent for one in found.outcomes.values()) == requests["sent"]
    # a request in the lost region is refused on the twin, and lost with its replica here
    failed = sum(one.failed for one in found.outcomes.values())
    assert failed == pytest.approx(requests["refused"], rel=0.1, abs=1)
    lost = next(each for each in found.workloads if each.workload.region == "europe-west4")
    assert min(each.ready for each in lost.recorded) == 0
    assert lost.recorded[-1].ready == 1


def test_a_rollout_and_a_canary_have_the_replicas_and_answers_of_the_twin(deployed):
    timeline = timeline_of("events")
    example = (EXAMPLES / "engines" / "Pulumi.engines.yaml").read_text()
    content = yaml.load(of_events(example), yaml.CSafeLoader)["config"]["gke-inference:platform"]
    stack_of_events = parse(json.dumps(content))
    platform = described(stack_of_events, deployed).platform
    changing = with_changes(platform, resolve(stack_of_events), EVENTS)
    own = []
    found = rehearsed(
        changing, str(EVENTS_TRAFFIC), timeline, lambda each: shares_of_rehearsal(each, own)
    )
    shares = share_within(found, timeline["ready"], most=0)  # two or three replicas are ready
    assert all(share >= 0.9 for share in shares.values()), shares
    assert {each.ready for each in found.workloads[0].recorded} == {2, 3}
    refused = sum(one.refused for one in found.outcomes.values())
    assert refused == pytest.approx(timeline["requests"]["refused"], rel=0.1, abs=1)
    of_canary = canary_shares(own)
    assert of_canary == pytest.approx((0.1, 0.4), abs=0.005)
    # Envoy draws the version of each request: three standard deviations of its share
    assert of_canary == pytest.approx(timeline["canary"], abs=0.08)


def test_programs_strategies_and_surge_settings_are_those_of_the_objects(local):
    assert [(each.name, each.replicas) for each in local.programs] == [
        ("acme-local-gateway-body-router", 2)
    ]
    assert {each.rolling for each in local.workloads} == {Rolling(0, 1)}
    (only,) = local.regions
    assert only.upgrades == Upgrades({"system": Surge(1, 0)}, Surge(0, 1))


QUICK = {
    "backends", "batch-slices", "calendar-mode", "clients", "disaggregation", "internal-front",
    "schedule",
}  # fmt: skip
"""A fallback, groups of hosts, a reservation for a week, teams, no engine, a fleet, a window that
the traffic begins in."""
FILES = [
    pytest.param(
        file,
        # the platform's own stacks and one example of each kind are the short form
        marks=() if file.parent == STACKS or file.parent.name in QUICK else pytest.mark.soak,
        id=file.stem.removeprefix("Pulumi."),
    )
    for file in (*STACKS.glob("Pulumi.*.yaml"), *sorted(EXAMPLES.glob("*/Pulumi.*.yaml")))
    if "layer" not in platform_of(file)
]
REFUSED = r"STACK: must have a model whose engine is simulated \(.+\)"
IDLE_HOURS = 0.05
HOST = "the host of "
"""Begins what is missing of a price that is there."""


@pytest.mark.parametrize("file", FILES)
def test_an_idle_stack_costs_what_cost_expects_of_its_least_replicas(deployed, file):
    platform = parse(json.dumps(platform_of(file)))
    try:
        found = described(platform, deployed)
    except CommandError as error:
        assert re.fullmatch(REFUSED, str(error))  # noqa: PT017 - most stacks have such a model
        assert file.parent != STACKS
        return
    rates = dict.fromkeys((model.name for model in found.platform.models), 0.05)
    day = default_day(
        rates,
        contexts={name: found.contexts[name] for name in rates},
        teams=tuple(found.platform.teams),
        teams_of=team_shares(found.platform),
        length_hours=IDLE_HOURS,
    )
    rehearsal = Rehearsal(found.platform, day, engines_of(found.platform))
    rehearsal.run()
    outcomes = list(rehearsal.outcomes.values())
    assert sum(one.sent for one in outcomes) == sum(one.answered for one in outcomes) > 0
    spent = spent_by(rehearsal)
    assert sum(spent.by_team.values()) == pytest.approx(spent.total)
    least = dict.fromkeys(spent.by_model, 0.0)
    for line in stack_cost(resolve(platform)).bill.lines:
        first = line.first
        if first is None or first.price is None or line.served.model not in least:
            continue
        if line.replica is None:
            continue
        if any(HOST not in each.what for each in line.replica.missing):
            continue  # `cost` has the price of the next rung, a rehearsal has none and says so
        # a calendar reservation is there in this hour, and a share of the month in `cost`
        hourly = first.price.usd_per_hour if first.share < 1 else line.replica.value
        replicas = line.served.replicas.min
        if line.served.shares:
            schedule = platform.models[line.served.model].replicas.schedule
            assert schedule is not None
            replicas = schedule.least_at(START)
            assert replicas > line.served.replicas.min
        least[line.served.model] += hourly * replicas * IDLE_HOURS
    assert spent.by_model == pytest.approx(least, rel=0.01)
