"""The published ladder of llm-d, replayed."""

import pytest

from bench.laboratory.ladder import Stage, climb, published


@pytest.fixture(scope="module")
def at_twenty() -> dict[str, Stage]:
    """The stage of the published ladder at which round robin breaks down."""
    return {
        routing: next(climb(routing, stages=((20, 24),), warm_up=(15, 25)))
        for routing in ("round-robin", "prefix-affine")
    }


@pytest.mark.soak
def test_round_robin_has_its_knee_at_twenty_requests_a_second_and_affinity_has_none(
    at_twenty: dict[str, Stage],
):
    spread, kept = at_twenty["round-robin"], at_twenty["prefix-affine"]
    assert spread.ttft > 5
    assert kept.ttft < 1
    assert spread.prefix_hit_ratio < 0.3
    assert kept.prefix_hit_ratio > 0.8
    assert kept.simulated > 1.4 * spread.simulated


def test_the_published_ladder_has_two_runs_of_both_routings():
    assert {len(rates) for rates, _ in published().values()} == {1, 2}
    assert {routing for routing, _ in published()} == {"round-robin", "prefix-affine"}
