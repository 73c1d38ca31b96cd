"""The cost model compared with published points."""

from statistics import median

import pytest

from planner.speed.points import rows
from scripts.docs.engine import engine_plot
from simulator.engine.calibration import bursts, families, fit, fits
from simulator.laboratory.ladder import Stage, climb, published


def test_half_of_all_published_quantities_are_within_a_fifth_of_a_fit_without_them():
    errors = [error for family in families() for error in family.errors]
    assert len(errors) > 200
    assert median(errors) <= 0.20


def test_every_point_says_where_it_is_from():
    assert all(row["source"] and row["date"] and row["kind"] for row in rows())


def test_a_point_is_simulated_with_figures_that_were_fitted_without_it():
    points = [item.point for item in families()[0].compared]
    _, without = fit(points)
    alone, _ = fit(points[1:])
    assert without[0].tolist() == alone.tolist()


def test_four_in_five_combinations_that_somebody_runs_start_in_the_memory_model():
    tried = fits()
    assert len(tried) == 50
    assert sum(not entry.problem for entry in tried) >= 40


def test_bursts_take_longer_the_larger_they_are():
    on_tpu = [burst.ttft for burst in bursts() if burst.row["accelerator"].startswith("tpu")]
    assert on_tpu == sorted(on_tpu)


def test_the_plot_shows_every_point():
    points = sum(len(family.compared) for family in families())
    assert engine_plot().count('r="3"') == points


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
