"""The published ladder of llm-d."""

from bench.laboratory.ladder import published


def test_the_published_ladder_has_two_runs_of_both_routings():
    assert {len(rates) for rates, _ in published().values()} == {1, 2}
    assert {routing for routing, _ in published()} == {"round-robin", "prefix-affine"}
