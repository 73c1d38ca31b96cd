"""The laboratory on computed engines: short stages of what its bounds are about."""

import pytest

from bench.laboratory.computed import Job, do, known
from bench.laboratory.ladder import climb
from bench.laboratory.policies import policies
from simulator.replays.workloads import StageSpec

pytestmark = pytest.mark.needs_tools


def rows_of(workload, seed, *stages):
    found = {}
    for policy in policies(known()[workload].facts):
        if policy.name in {"round_robin", "picker_defaults", "shipped"}:
            (found[policy.name],) = do(Job(workload, policy, seed, stages))
    return found


def test_no_request_waits_for_an_answer_on_a_full_replica_while_another_has_room():
    warm_up, full = StageSpec(15, 50, is_warm_up=True), StageSpec(40, 38)
    rows = rows_of("shared_prefix", 3, warm_up, full)
    assert rows["picker_defaults"]["ttft_ms"]["p99"] > 10_000
    assert rows["shipped"]["ttft_ms"]["p99"] < 1_000
    assert len({row["trace"] for row in rows.values()}) == 1


def test_sessions_of_agents_stay_where_their_prompts_are_cached():
    rows = rows_of("agents", 1, StageSpec(3, 150))
    shipped = rows["shipped"]
    assert shipped["steady_tok_s"] > 1.5 * rows["round_robin"]["steady_tok_s"]
    assert shipped["prefix_hit_rate"] > 0.9
    assert rows["picker_defaults"]["prefix_hit_rate"] < 0.85
    assert shipped["answered"] == shipped["sent"]


def test_a_run_gives_the_same_row_again():
    job = Job("lora", policies(known()["lora"].facts)[-1], 1, (StageSpec(24, 10),))
    assert do(job) == do(job)


def test_round_robin_has_its_knee_at_twenty_requests_a_second_and_affinity_has_none():
    spread, kept = (
        next(climb(routing, stages=((20, 24),), warm_up=(15, 25)))
        for routing in ("round-robin", "prefix-affine")
    )
    assert spread.ttft > 5
    assert kept.ttft < 1
    assert spread.prefix_hit_ratio < 0.3
    assert kept.prefix_hit_ratio > 0.8
    assert kept.simulated > 1.4 * spread.simulated
