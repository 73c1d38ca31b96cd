"""The cost model compared with published points."""

from statistics import median

from planner.speed.points import rows
from scripts.docs.engine import engine_plot
from simulator.engine.calibration import bursts, families, fit, fits


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
