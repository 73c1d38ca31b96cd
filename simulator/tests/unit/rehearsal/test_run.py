"""A platform under traffic in virtual time: outcomes, replicas, faults, machine time."""

from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise

import numpy as np
import pytest

from gke_inference.intent.schedule import ReplicaSchedule
from simulator.demand.generated import Generated
from simulator.demand.pattern import Kind, Pattern, Rate, Sessions
from simulator.engine.stepped import LeastRequest, ReferenceEngines
from simulator.rehearsal.changes import Canary, Counted, Rolling, Rollout, Upgrade, roll
from simulator.rehearsal.description import Fallback, Front, Limit, Model, Slo, Team, Times
from simulator.rehearsal.gates import NO_PROGRAM
from simulator.rehearsal.horizontal import Metric
from simulator.rehearsal.routing import Ejections
from simulator.rehearsal.run import Rehearsal, usd_per_hour
from simulator.tests.unit.rehearsal.platforms import (
    L4,
    Listed,
    Steady,
    platform,
    program,
    region,
    with_pool,
    workload,
)
from twin.world.capacity import World
from twin.world.quota import QuotaLine
from twin.world.scenario import Change, Step

SPOT = {"machineType": L4, "gpu": {"type": "nvidia-l4", "count": 1}, "spot": True}


def run(found, traffic):
    rehearsal = Rehearsal(found, traffic, ReferenceEngines(found.engines, LeastRequest))
    rehearsal.run()
    return rehearsal


def total(rehearsal, name="us-central1"):
    return rehearsal.outcomes["llm", name]


def ready(rehearsal, at=0):
    return [sample.ready for sample in rehearsal.workloads[at].recorded]


def test_a_platform_with_room_answers_all_and_pays_for_its_machine_alone():
    rehearsal = run(platform(), Steady(0.2, 600))
    found = total(rehearsal)
    assert (found.sent, found.answered, found.failed) == (120, 120, 0)
    ((bought, seconds),) = rehearsal.machines.items()
    assert (bought.pool, bought.provisioning, bought.machine) == ("llm", "on-demand", L4)
    assert seconds == 600
    assert usd_per_hour(bought) == pytest.approx(1.00041)
    assert set(ready(rehearsal)) == {1}
    slowest = found.ttft.quantile(0.95)
    assert slowest is not None
    assert slowest < 2


def test_a_schedule_raises_the_minimum_for_its_hours_also_before_the_first_request():
    text = (
        '{"time_zone": "Europe/Berlin", "windows": '
        '[{"days": ["SU"], "start": "05:00", "end": "06:00", "min": 3}]}'
    )
    schedule = ReplicaSchedule.model_validate_json(text)
    found = workload()
    assert found.scaler is not None
    metrics = (*found.scaler.metrics, Metric("clock", 1.0, is_external=True))
    scaler = replace(found.scaler, metrics=metrics)
    found = replace(found, scaler=scaler, schedules={"clock": schedule})
    # Sunday 05:50 in Europe, in the night in which clocks change
    times = Times(start=datetime(2026, 3, 29, 3, 50, tzinfo=UTC))
    rehearsal = run(platform(workloads=(found,), times=times), Steady(0.2, 3600))
    replicas = ready(rehearsal)
    assert (replicas[0], replicas[-1]) == (3, 1)
    changed = [at for at, (one, two) in enumerate(pairwise(replicas)) if one != two]
    # after the hour: ingestion, the window of five minutes, and two minutes between replicas
    seconds = [rehearsal.workloads[0].recorded[at].seconds for at in changed]
    assert 900 <= seconds[0] <= 1000
    assert seconds[-1] - seconds[0] == pytest.approx(120, abs=20)


def test_two_runs_of_the_same_traffic_are_the_same():
    first, second = (run(platform(), Steady(2.0, 120)) for _ in range(2))
    assert total(first).ttft.counts.tolist() == total(second).ttft.counts.tolist()
    assert first.machines == second.machines


def test_a_queue_adds_replicas_after_scrape_ingestion_node_and_start():
    rehearsal = run(platform(), Steady(4.0, 900))
    samples = rehearsal.workloads[0].recorded
    decided = next(each.seconds for each in samples if each.wanted > 1)
    served = next(each.seconds for each in samples if each.ready > 1)
    assert 30 <= decided <= 75  # a scrape, 30 s of ingestion, a look of the autoscaler
    assert 150 + 110 <= served - decided <= 150 + 110 + 30  # node, image and weights
    assert max(ready(rehearsal)) == 4
    assert set(rehearsal.workloads[0].missing) >= {"node", "image, weights, compilation"}


def test_a_rung_without_stock_is_left_for_the_next_one():
    world = World(stock=())
    line = Change(zone="*", accelerator="nvidia-l4", provisioning="on-demand", chips=0).line()
    rehearsal = run(platform(world=world.model_copy(update={"stock": (line,)})), Steady(0.2, 300))
    assert {each.provisioning for each in rehearsal.machines} == {"spot"}
    assert total(rehearsal).failed == 0


def test_a_quota_refuses_machines_and_replicas_are_missing_for_that_reason():
    quota = QuotaLine(region="us-central1", accelerator="nvidia-l4", chips=1)
    preemptible = QuotaLine(
        region="us-central1", accelerator="nvidia-l4", kind="preemptible", chips=0
    )
    world = World(quota=(quota, preemptible))
    rehearsal = run(platform(world=world), Steady(4.0, 300))
    assert max(ready(rehearsal)) == 1
    assert rehearsal.workloads[0].missing["no capacity"] > 100
    assert "rung.quota" in {event.kind for event in rehearsal.log.events}


def test_spot_machines_end_after_their_notice_and_come_back_with_the_capacity():
    gone = Step(title="gone", after=100, set=(_spot(0),))
    back = Step(title="back", after=600, set=(_spot("unlimited"),))
    found = platform(region("us-central1", SPOT), steps=(gone, back))
    rehearsal = run(found, Steady(0.2, 1500))
    outcome = total(rehearsal)
    assert outcome.reasons["no replica"] > 100
    assert outcome.answered + outcome.failed == 300
    seconds = [each.seconds for each in rehearsal.workloads[0].recorded if each.ready == 0]
    assert 100 <= min(seconds) <= 135
    assert 700 <= max(seconds) <= 700 + 300 + 20 + 150 + 110 + 30  # cool-down, node, start
    kinds = [event.kind for event in rehearsal.log.events]
    assert kinds[:2] == ["scenario.step", "node.notice"]


def _spot(chips):
    return Change(zone="*", accelerator="*", provisioning="spot", chips=chips)


def test_a_lost_region_sends_its_clients_to_the_next_one_behind_a_global_front():
    regions = (region("us-central1"), region("europe-west4"))
    down = Step(title="down", after=120, outages=("europe-west4-*",))
    both = Steady(1.0, 600, regions=("us-central1", "europe-west4"))
    apart = run(platform(*regions, steps=(down,)), both)
    assert total(apart, "europe-west4").reasons["no replica"] == 240
    joined = run(platform(*regions, steps=(down,), front=Front(is_global=True)), both)
    assert total(joined, "europe-west4").failed <= 5
    assert total(joined, "us-central1").answered >= 300 + 235


def test_failed_connections_eject_a_lost_region_before_it_is_back_without_engines():
    regions = (region("us-central1"), region("europe-west4"))
    down = Step(title="down", after=120, outages=("europe-west4-*",))
    back = Step(title="back", after=10, outages=())
    front = Front(is_global=True, failures=3)
    both = Steady(1.0, 155, regions=("us-central1", "europe-west4"))
    found = run(platform(*regions, steps=(down, back), front=front), both)
    (ejected,) = [event.seconds for event in found.log.events if event.kind == "front.ejected"]
    assert 120 < ejected < 130
    assert ready(found, 1)[-1] == 0
    assert total(found, "europe-west4").refused == 0


def test_a_region_that_could_not_be_ejected_is_ejected_once_another_is_back():
    found = Ejections(Front(is_global=True, failures=3), regions=2)
    assert found.failed("a", 3, now=0.0)
    assert not found.failed("b", found.room("b"), now=10.0)  # half of the regions are out
    assert found.failed("b", found.room("b"), now=31.0)


def test_a_region_that_fails_again_at_once_is_ejected_for_longer_and_a_calm_one_is_not():
    found = Ejections(Front(is_global=True, failures=3), regions=2)
    found.failed("a", 3, now=0.0)
    found.failed("a", 3, now=31.0)
    assert (found.is_out("a", 90.0), found.is_out("a", 92.0)) == (True, False)
    found.failed("a", 3, now=200.0)
    assert (found.is_out("a", 229.0), found.is_out("a", 231.0)) == (True, False)


def test_a_turn_of_a_session_finds_prompt_and_answer_of_the_turn_before_in_the_cache():
    kind = Kind(
        share=1,
        output_tokens=32,
        sessions=Sessions(turns=4, first_tokens=320, tokens_per_turn=160, gap_seconds=60),
    )
    rate = Rate(requests_per_second=0.02)
    traffic = Generated(Pattern(models={"llm": rate}, kinds={"k": kind}, length_hours=1))
    (sent,) = traffic.chunks()
    continued = sent.prefix_tokens[sent.prefix_tokens > 0]
    found = total(run(platform(), traffic))
    assert found.answered == len(sent)
    # whole blocks of 16, without the last token, whose keys are never computed
    assert continued.sum() < found.cached_tokens <= (continued + 16).sum()


def test_a_team_over_its_limit_is_refused_and_others_are_not():
    limit = Limit(requests_per_minute=10)
    teams = {"a": Team({"us-central1": limit, "europe-west4": limit}), "b": Team()}
    rehearsal = run(platform(teams=teams), Steady(1.0, 120, teams=("a", "b")))
    assert rehearsal.tally.teams["a"].reasons == {"limit of the team": 40}
    assert (rehearsal.tally.teams["a"].answered, rehearsal.tally.teams["b"].answered) == (20, 60)


def test_limits_of_a_team_hold_in_each_region():
    limit = Limit(requests_per_minute=10)
    teams = {"a": Team({"us-central1": limit})}
    regions = ("us-central1", "europe-west4")
    traffic = Steady(1.0, 60, regions=regions, teams=("a",))
    rehearsal = run(platform(*(region(name) for name in regions), teams=teams), traffic)
    assert total(rehearsal).reasons == {"limit of the team": 20}
    assert total(rehearsal, "europe-west4").answered == 30


def test_a_team_has_no_tokens_of_the_next_month_and_no_models_of_others():
    month = Team({"us-central1": Limit(tokens_per_month=1200)})
    rehearsal = run(platform(teams={"a": month}), Steady(0.5, 60, teams=("a",)))
    assert total(rehearsal).reasons == {"month of the team": 20}  # 10 of 120 tokens are allowed
    other = Team(models=frozenset({"chat"}))
    rehearsal = run(platform(teams={"a": other}), Steady(0.5, 60, teams=("a",)))
    assert total(rehearsal).reasons == {"model of the team": 30}


def test_a_fallback_answers_what_waits_too_long_until_its_budget_is_spent():
    price = {"input_usd_per_million": 1000.0, "output_usd_per_million": 5000.0}  # 0.2 a request
    fallback = Fallback(after_queue=3, monthly_usd=20.1, **price)
    model = Model("llm", (("llm", 1.0),), timeout_seconds=60.0, fallback=fallback)
    found = platform(models=(model,), workloads=(workload(most=1),))
    rehearsal = run(found, Steady(4.0, 120))
    outcome = total(rehearsal)
    assert outcome.by_fallback == 100
    assert rehearsal.gates.fallback_usd["llm", "us-central1"] == pytest.approx(20.0)
    assert outcome.answered + outcome.by_fallback + outcome.failed == outcome.sent == 480


def test_a_fallback_answers_while_no_engine_is_ready():
    gone = Step(title="gone", after=10, set=(_spot(0),))
    fallback = Fallback(3, 1000.0, 1.0, 1.0)
    model = Model("llm", (("llm", 1.0),), fallback=fallback)
    found = platform(region("us-central1", SPOT), models=(model,), steps=(gone,))
    outcome = total(run(found, Steady(0.5, 200)))
    assert outcome.by_fallback > 70
    assert outcome.reasons["no replica"] == 0


@pytest.mark.parametrize(("target", "late"), [(2000.0, 0), (250.0, 100), (510.0, 50)])
def test_answers_of_a_fallback_count_against_the_objective_in_their_own_time(target, late):
    line = Change(zone="*", accelerator="nvidia-l4", provisioning="*", chips=0).line()
    fallback = Fallback(3, 1000.0, 1.0, 1.0)
    model = Model("llm", (("llm", 1.0),), Slo(target), fallback=fallback)
    found = platform(models=(model,), world=World(stock=(line,)))
    outcome = total(run(found, Steady(0.5, 200)))
    assert (outcome.answered, outcome.answers, outcome.failed) == (0, 100, 0)
    assert outcome.late_ttft == pytest.approx(late, abs=2)
    assert outcome.tpot.quantile(0.5) == pytest.approx((150 / 40 - 0.51) / 149, rel=0.02)


def test_a_fallback_that_takes_longer_than_its_timeout_is_cut_off():
    line = Change(zone="*", accelerator="nvidia-l4", provisioning="*", chips=0).line()
    fallback = Fallback(3, 1000.0, 1.0, 1.0, timeout_seconds=1.0)
    model = Model("llm", (("llm", 1.0),), fallback=fallback)
    found = platform(models=(model,), world=World(stock=(line,)))
    outcome = total(run(found, Steady(0.5, 20, output=100)))
    assert (outcome.cut, outcome.by_fallback) == (10, 0)


def test_a_fleet_gateway_sends_what_exceeds_its_target_to_the_next_region():
    regions = (region("us-central1"), region("europe-west4"))
    only = tuple(workload(each.name, most=1) for each in regions)
    traffic = Steady(0.5, 200, regions=("us-central1",), prompt=1800, output=100)
    found = platform(*regions, workloads=only, front=Front(overflow_percent=2))
    rehearsal = run(found, traffic)
    assert total(rehearsal, "europe-west4").answered > 20
    idle = platform(*regions, workloads=only, front=Front(overflow_percent=90))
    assert total(run(idle, traffic), "europe-west4").sent == 0


def test_a_request_longer_than_the_context_is_refused():
    rehearsal = run(platform(), Steady(1.0, 10, prompt=4000))
    assert total(rehearsal).reasons == {"longer than the context": 10}


def test_an_answer_beyond_the_timeout_of_the_gateway_is_cut_off_and_frees_its_engine():
    found = platform(workloads=(workload(most=1),))
    # half an hour of work at once, and then, after the timeout, what one engine can answer
    seconds = np.concatenate((np.full(600, 1.0), np.arange(100.0, 200.0, 5.0)))
    outcome = total(run(found, Listed(seconds)))
    assert outcome.answered + outcome.cut == outcome.sent == 620
    assert 500 < outcome.cut < 600
    assert outcome.answered >= 20 + 1


def test_traffic_for_a_model_that_the_platform_lacks_is_refused_in_one_line():
    with pytest.raises(ValueError, match=r"^model: must be one of llm, got 'gpt'$"):
        run(platform(), Steady(1.0, 1, models=("gpt",)))


def test_an_embedding_model_answers_when_the_prompt_is_computed():
    found = platform(models=(Model("llm", (("llm", 1.0),), is_embedding=True),))
    assert total(run(found, Steady(0.2, 60, output=200))).output_tokens == 12


def test_engines_with_measured_steps_take_so_much_longer():
    found = platform()
    slower = platform(engines=tuple(replace(each, step_factor=2.0) for each in found.engines))
    first, second = (total(run(each, Steady(0.05, 200))) for each in (found, slower))
    ratio = (second.tpot.quantile(0.5) or 0) / (first.tpot.quantile(0.5) or 1)
    assert ratio == pytest.approx(2, rel=0.03)  # durations are kept to 2 percent


def test_a_gateway_without_a_ready_program_refuses_until_it_runs_on_another_node():
    down = Step(title="down", after=100, outages=("us-central1-a",))
    found = run(platform(with_pool(1), programs=(program(),), steps=(down,)), Steady(1.0, 400))
    outcome = total(found)
    # a look of the autoscaler, 60 s for the node, 5 s for the program
    assert 65 <= outcome.reasons[NO_PROGRAM] <= 85
    spread = run(platform(with_pool(3), programs=(program(),), steps=(down,)), Steady(1.0, 400))
    assert total(spread).reasons[NO_PROGRAM] == 0


def test_a_global_front_leaves_a_region_whose_gateway_lacks_a_program():
    regions = (region("us-central1"), region("europe-west4"))  # without nodes for programs
    both = Steady(1.0, 100, regions=("us-central1", "europe-west4"))
    found = run(
        platform(*regions, programs=(program("europe-west4"),), front=Front(is_global=True)), both
    )
    assert total(found, "europe-west4").answered == 0
    assert (
        5 <= total(found, "europe-west4").reasons[NO_PROGRAM] == total(found, "europe-west4").failed
    )
    assert total(found).answered >= 80


# -- rollouts, canaries, upgrades

EVERYWHERE = frozenset({("llm", "us-central1")})


@pytest.mark.parametrize(
    ("found", "wanted", "does"),
    [
        (Counted(4, 0, 0, 0), 4, (0, 0, 1)),  # one may be unavailable: an old one goes first
        (Counted(3, 0, 0, 0), 4, (1, 0, 0)),  # and a new one takes its place
        (Counted(3, 0, 0, 1), 4, (0, 0, 0)),  # which is waited for
        (Counted(3, 0, 1, 0), 4, (0, 0, 1)),
        (Counted(2, 2, 0, 0), 4, (0, 1, 0)),  # those that are not ready go first
        (Counted(0, 0, 4, 0), 4, (0, 0, 0)),
    ],
)
def test_a_rollout_keeps_all_but_one_replica_ready(found, wanted, does):
    assert roll(Rolling(0, 1), wanted, found) == does


def test_a_rollout_with_a_surge_creates_before_it_deletes_and_rounds_percentages_as_kubernetes():
    assert roll(Rolling(1, 0), 4, Counted(4, 0, 0, 0)) == (1, 0, 0)
    assert roll(Rolling(1, 0), 4, Counted(4, 0, 1, 0)) == (0, 0, 1)
    assert Rolling("25%", "25%").limits(5) == (2, 1)
    assert Rolling(0, "10%").limits(5) == (0, 1)


def test_a_rollout_replaces_replicas_one_after_another_with_their_start_and_new_steps():
    found = platform(workloads=(workload(least=3, most=3),))
    found = replace(found, engines=(*found.engines, replace(found.engines[0], step_factor=2.0)))
    slower = Rollout(60.0, "rollout", EVERYWHERE, {0: 1})
    before, after = (
        run(replace(found, changes=changes), Steady(0.2, 900)) for changes in ((), (slower,))
    )
    assert min(ready(before)) == 3
    below = [each.seconds for each in after.workloads[0].recorded if each.ready < 3]
    assert min(ready(after)) == 2
    assert max(below) - min(below) == pytest.approx(3 * 110, abs=45)  # starts, on the same nodes
    done = next(each for each in after.log.events if each.kind == "rollout.done")
    assert done.seconds == pytest.approx(60 + 3 * 110, abs=45)
    assert (total(after).tpot.quantile(0.95) or 0) > 1.8 * (total(before).tpot.quantile(0.95) or 1)
    assert total(after).failed == 0


def test_a_revision_that_does_not_start_takes_one_replica_and_no_more():
    found = platform(workloads=(workload(least=3, most=3),))
    broken = Rollout(60.0, "rollout", EVERYWHERE, is_broken=True)
    after = run(replace(found, changes=(broken,)), Steady(0.2, 900))
    assert ready(after)[-1] == min(ready(after)) == 2
    assert "rollout.done" not in {each.kind for each in after.log.events}


@pytest.mark.parametrize("rate", [1.0, 0.05])  # with less than a request in a step, too
def test_a_canary_gets_its_share_from_its_time_on(rate):
    none = replace(workload(), name="llm-b", pool="llm-b", replicas=0, scaler=None)
    model = Model("llm", (("llm", 1.0), ("llm-b", 0.0)))
    half = 300 / rate
    quarter = Canary(half, "canary", "llm", (("llm", 0.75), ("llm-b", 0.25)))
    found = platform(models=(model,), workloads=(workload(), none), changes=(quarter,))
    outcome = total(run(found, Steady(rate, 2 * half)))
    assert outcome.reasons["no replica"] == pytest.approx(75, abs=3)  # of 300 requests
    assert outcome.answered + outcome.failed == 600


def test_an_upgrade_replaces_each_node_after_its_replicas_have_left_it():
    found = platform(workloads=(workload(least=2, most=2),))
    upgrade = Upgrade(60.0, "upgrade", "us-central1", 9999.0)
    after = run(replace(found, changes=(upgrade,)), Steady(0.2, 2400))
    assert min(ready(after)) == 1  # the disruption budget evicts one at a time
    assert ready(after)[-1] == 2
    assert total(after).failed == 0
    assert sum(seconds for seconds in after.machines.values()) > 2 * 2400 - 200


def test_an_upgrade_stops_at_the_end_of_its_window():
    found = platform(workloads=(workload(least=3, most=3),))
    upgrade = Upgrade(60.0, "upgrade", "us-central1", 120.0)
    after = run(replace(found, changes=(upgrade,)), Steady(0.2, 2400))
    (paused,) = (each for each in after.log.events if each.kind == "upgrade.paused")
    assert paused.message == "the window ends before 2 more groups of nodes"
    assert ready(after)[-1] == 3
