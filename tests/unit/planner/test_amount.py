"""Amounts of which a part may have no price: sums, multiples, maxima, and how they read."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from gke_inference.catalogue.prices import Price
from planner.amount import (
    NOTHING,
    Amount,
    AmountRange,
    Missing,
    largest,
    missing_lines,
    price_notes,
    total,
    without_price,
    without_quantity,
)
from planner.choice.cost import amount_of

DISK, HOST = Missing("a disk", "us-east4"), Missing("the host of a chip", "us-east1")
missing = some.lists(some.sampled_from([DISK, HOST]), unique=True).map(sorted).map(tuple)
amounts = some.builds(
    Amount, some.integers(0, 10**9).map(float), missing, missing, some.integers(0, 99).map(float)
)


@given(amounts, amounts, amounts)
def test_sums_do_not_depend_on_their_order(first: Amount, second: Amount, third: Amount) -> None:
    assert first + second == second + first
    assert (first + second) + third == first + (second + third)
    assert first + NOTHING == first


@given(some.lists(amounts))
def test_a_sum_misses_what_any_of_its_parts_misses(parts: list[Amount]) -> None:
    found = total(parts)
    assert found.value == sum(part.value for part in parts)
    assert set(found.missing) == {one for part in parts for one in part.missing}


@given(amounts, amounts, some.integers(0, 1000))
def test_a_multiple_of_a_sum_is_the_sum_of_the_multiples(
    first: Amount, second: Amount, factor: int
) -> None:
    assert (first + second) * factor == first * factor + second * factor


def test_none_of_something_without_a_price_costs_nothing_and_misses_nothing() -> None:
    assert without_price("a disk", "us-east4") * 0 == NOTHING


@given(some.lists(amounts, min_size=1))
def test_the_largest_misses_what_any_misses_as_that_may_be_larger(parts: list[Amount]) -> None:
    found = largest(parts)
    assert found.value == max(part.value for part in parts)
    assert set(found.missing) == {one for part in parts for one in part.missing}


@pytest.mark.parametrize(
    ("value", "spec", "said"),
    [
        (1234.5, ",.2f", "1,234.50"),
        (1234.5, "$,.2f", "$1,234.50"),
        (0.256, ".0%", "26%"),
        (0.00634, "unit", "0.0063"),
        (0.00634, "$unit", "$0.0063"),
    ],
)
def test_an_amount_reads_the_same_whether_something_is_missing_or_not(
    value: float, spec: str, said: str
) -> None:
    assert f"{Amount(value):{spec}}" == f"{Amount(value, (DISK,)):{spec}}" == said


def test_a_missing_price_is_one_line_for_all_regions_where_it_is_missing() -> None:
    other = Missing("a disk", "asia-east1")
    assert missing_lines([DISK, HOST, other, DISK, Missing("an image", "")]) == [
        "no published price here for a disk in asia-east1, us-east4: not in these totals",
        "no published price here for an image: not in these totals",
        "no published price here for the host of a chip in us-east1: not in these totals",
    ]


def test_an_unknown_quantity_is_not_taken_for_a_missing_price() -> None:
    images = without_quantity("images", "us-east4", "--images-gib")
    assert images.is_unknown
    assert missing_lines((images + Amount(1.0, (DISK,))).missing) == [
        "no published price here for a disk in us-east4: not in these totals",
        "unknown quantity of images in us-east4: not in these totals without --images-gib",
    ]


def test_a_price_without_its_host_misses_the_host() -> None:
    price = Price(2.5, "a list", "2026-11-01", "secondary")
    assert amount_of(price, "a chip", "us-east1") == Amount(2.5)
    part = Price(2.5, "a list", "2026-11-01", "secondary", lacks_host=True)
    assert amount_of(part, "a chip", "us-east1") == Amount(2.5, (HOST,))
    assert not amount_of(part, "a chip", "us-east1").is_unknown


def test_what_has_no_price_at_all_is_unknown() -> None:
    found = amount_of(None, "a disk", "us-east4")
    assert found == Amount(0.0, (DISK,))
    assert found.is_unknown
    assert not NOTHING.is_unknown


def test_a_range_is_three_numbers_as_json() -> None:
    found = AmountRange(Amount(2, (DISK,)), Amount(1, (DISK,)), Amount(4))
    assert found.as_json() == {"value": 2, "low": 1, "high": 4}


def test_a_part_of_an_amount_misses_what_the_whole_does() -> None:
    assert Amount(3.0, (DISK,)) / 2 == Amount(1.5, (DISK,))


def test_a_figure_with_an_unverified_price_in_it_is_marked_and_its_item_is_named() -> None:
    guess = Price(1.35, "general knowledge", "2026-11-21", "unverified")
    known = Price(2.0, "a catalog", "2026", "secondary")
    paid = amount_of(guess, "tpu-v6e 1x1 flex-start", "us-central1") * 2
    paid += amount_of(known, "nvidia-l4 x1 spot", "us-central1")
    assert f"{paid:$,.2f}" == "$4.70*"
    assert price_notes([paid]) == [
        "* unverified price of tpu-v6e 1x1 flex-start in us-central1: compare it with Google's "
        "price list"
    ]
    rest = amount_of(known, "nvidia-l4 x1 spot", "us-central1") * 20
    assert f"{paid + rest:$,.2f}" == "$44.70"  # 6 % of it is no reason for a mark
    assert f"{amount_of(known, 'nvidia-l4 x1 spot', 'us-central1'):,.2f}" == "2.00"
