"""Errors of the estimates on held-out points."""

import pytest

from planner.speed.errors import Group, chip_contests, families, left_out, of_new
from planner.speed.points import BETWEEN, FIRST, QUANTITIES, loops, points, points_of, rows

LARGEST = "70.6"
"""Size of the model with the most published closed loops."""


def unseen(quantity: str) -> Group:
    """Return the errors of vLLM on that model, estimated by constants that never saw it."""
    mine = left_out("model", LARGEST).of(quantity)
    return mine.where(lambda item: item.point.row["engine"] == "vLLM")


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_points_are_close_to_an_estimate_without_them(quantity: str):
    group = left_out("point").of(quantity)
    assert len(group.compared) > 200
    assert group.median <= 0.10
    assert 0.76 <= group.inside <= 0.84


@pytest.mark.parametrize(("quantity", "median", "most"), [(BETWEEN, 0.1, 0.3), (FIRST, 0.3, 0.9)])
def test_vllm_is_estimated_for_a_model_that_was_never_seen(
    quantity: str, median: float, most: float
):
    group = unseen(quantity)
    assert len(group.compared) > 200
    assert group.median <= median
    assert group.nine_in_ten <= most


def test_the_right_accelerator_is_chosen_for_a_model_that_was_never_seen():
    found = chip_contests("model", LARGEST)
    assert len(found) >= 50
    assert sum(one.is_first for one in found) >= 0.97 * len(found)


def test_estimates_without_points_have_wider_intervals():
    alone = left_out("point").of(BETWEEN)
    assert unseen(BETWEEN).width > alone.width
    assert min(item.unknown for item in unseen(BETWEEN).compared) == pytest.approx(1)


def test_a_point_that_is_left_out_does_not_shape_its_own_estimate():
    item = left_out("point").compared[0]
    again = of_new([item.point]).compared[0]
    assert abs(again.error) < abs(item.error)


def test_rows_that_cannot_be_as_stated_are_in_no_fit():
    noted = [row for row in loops() if row["note"]]
    assert len(noted) == 33
    assert not {id(point.row) for point in points()} & {id(row) for row in noted}
    for row in noted:
        (between, _) = points_of([row])
        needed = between.shape.weights_gb / between.chips
        assert needed > 141 or between.shape.parameters_billion < 10


def test_every_point_belongs_to_one_family():
    assert sum(len(group.compared) for group in families()) == len(points())


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
