"""What the estimates are worth on points that they have not seen."""

import pytest

from planner.speed.errors import LEFT_OUT, contests, families, left_out, of_new
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
