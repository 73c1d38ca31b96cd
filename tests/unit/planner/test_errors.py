"""Errors of the estimates on held-out points."""

from pathlib import Path
from statistics import median

import pytest

from planner.speed.all_to_all import kernels
from planner.speed.errors import LEFT_OUT, contests, families, left_out, of_new, splits
from planner.speed.points import points, points_of, rows


def test_half_of_the_points_are_within_a_fifth_of_an_estimate_without_them():
    group = left_out("point")
    assert len(group.compared) > 200
    assert group.median <= 0.20


@pytest.mark.parametrize(
    ("by", "most"),
    [("model on one accelerator", 0.2), ("accelerator", 0.2), ("model", 0.25), ("source", 0.25)],
)
def test_so_are_nearly_those_of_which_less_is_known(by: str, most: float):
    assert left_out(by).median <= most


@pytest.mark.parametrize("by", sorted(LEFT_OUT))
def test_an_interval_of_80_percent_holds_about_that_many_points(by: str):
    assert 0.75 <= left_out(by).inside <= 0.99


def test_a_point_that_is_left_out_does_not_shape_its_own_estimate():
    item = left_out("point").compared[0]
    again = of_new([item.point]).compared[0]
    assert abs(again.error) < abs(item.error)


def test_the_best_hardware_is_among_the_first_two_of_each_choice_without_having_seen_the_model():
    choices = contests("model")
    assert len(choices) >= 40
    assert all(choice.is_found for choice in choices)
    assert sum(choice.is_first for choice in choices) >= 0.8 * len(choices)


def test_every_point_belongs_to_one_family():
    assert sum(len(group.compared) for group in families()) == len(points())


def test_the_page_has_the_errors_that_the_planner_measures():
    page = (Path(__file__).parents[3] / "docs" / "planner.md").read_text()
    rows = [(group.name, group) for group in families()]
    rows += [(by, left_out(by)) for by in LEFT_OUT]
    rows += [(f"| {group.name} |", group) for group in splits()]
    for name, group in rows:
        figures = f"| {group.median:.0%} | {group.nine_in_ten:.0%} | {group.inside:.0%} |"
        found = [line for line in page.splitlines() if line.endswith(figures) and name in line]
        assert found, f"{name} {figures}"
    assert f"the {len(points())} quantities" in page
    for backend in {one.backend for one in kernels()}:
        errors = sorted(abs(one.error) for one in kernels() if one.backend == backend)
        line = f"| {backend} | {len(errors)} | {median(errors):.0%} | {errors[-1]:.0%} |"
        assert line in page


def test_every_family_is_below_a_fifth_or_its_intervals_hold_what_was_published():
    for group in families():
        assert group.median < 0.2 or group.inside >= 0.8, group.name


def test_requests_that_wait_are_no_part_of_the_batch():
    knees = [
        point
        for point in points()
        if point.row["accelerator"] == "nvidia-l4" and "27b" in point.row["model"]
    ]
    (fewer,) = {round(point.sequences, 6) for point in knees}
    assert len(knees) == 2
    assert fewer == pytest.approx(442 * 0.118)


def test_rows_of_a_public_collection_are_read_by_their_own_column_names():
    row = rows()[0]
    theirs = {
        **row,
        "num_accel": row["chips"],
        "isl": row["input_tokens"],
        "osl": row["output_tokens"],
        "output_tok_s_total": row["output_tokens_per_second"],
    }
    for ours in ("chips", "input_tokens", "output_tokens", "output_tokens_per_second"):
        del theirs[ours]
    assert [point.published for point in points_of([theirs])] == [25852.0]


def test_points_of_a_split_that_are_all_left_out_are_still_in_their_intervals():
    groups = {group.name: group for group in splits()}
    assert len(groups["expert parallelism"].compared) == 39
    assert len(groups["pipeline stages"].compared) == 3
    for name in ("expert parallelism, all left out", "pipeline stages, all left out"):
        assert groups[name].median < 0.25
        assert groups[name].inside >= 0.8
