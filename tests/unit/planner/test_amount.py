"""Amounts of which a part may be unknown: sums, multiples, maxima, and how they read."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from gke_inference.catalogue.prices import Price
from planner.amount import NOTHING, UNKNOWN, Amount, AmountRange, amount_of, largest, total

amounts = some.builds(Amount, some.integers(0, 10**9).map(float), some.booleans())


@given(amounts, amounts, amounts)
def test_sums_do_not_depend_on_their_order(first: Amount, second: Amount, third: Amount) -> None:
    assert first + second == second + first
    assert (first + second) + third == first + (second + third)
    assert first + NOTHING == first


@given(some.lists(amounts))
def test_a_sum_is_known_from_below_as_soon_as_a_part_is(parts: list[Amount]) -> None:
    found = total(parts)
    assert found.value == sum(part.value for part in parts)
    assert found.at_least == any(part.at_least for part in parts)
    assert (found + UNKNOWN) == Amount(found.value, at_least=True)


@given(amounts, amounts, some.integers(0, 1000))
def test_a_multiple_of_a_sum_is_the_sum_of_the_multiples(
    first: Amount, second: Amount, factor: int
) -> None:
    assert (first + second) * factor == first * factor + second * factor


@given(some.lists(amounts, min_size=1))
def test_the_largest_may_be_any_that_is_known_from_below(parts: list[Amount]) -> None:
    found = largest(parts)
    assert found.value == max(part.value for part in parts)
    assert found.at_least == any(part.at_least for part in parts)


@pytest.mark.parametrize(
    ("amount", "spec", "said"),
    [
        (Amount(1234.5), ",.2f", "1,234.50"),
        (Amount(1234.5), "$,.2f", "$1,234.50"),
        (Amount(1234.5, at_least=True), ",.0f", "≥ 1,234"),
        (Amount(1234.5, at_least=True), "$,.2f", "≥ $1,234.50"),
        (Amount(0.256, at_least=True), ".0%", "≥ 26%"),
        (Amount(0.00634), "unit", "0.0063"),
        (Amount(0.00634, at_least=True), "$unit", "≥ $0.0063"),
    ],
)
def test_the_sign_stands_once_before_the_amount(amount: Amount, spec: str, said: str) -> None:
    assert f"{amount:{spec}}" == said


def test_a_sentence_may_say_the_sign_in_words() -> None:
    assert Amount(9.5, at_least=True).text("$.2f", "at least ") == "at least $9.50"
    assert Amount(9.5).text("$.2f", "at least ") == "$9.50"


def test_a_price_without_a_part_is_an_amount_known_from_below() -> None:
    price = Price(2.5, "a list", "2026-11-01", "secondary")
    assert amount_of(price) == Amount(2.5)
    part = Price(2.5, "a list", "2026-11-01", "secondary", is_lower_bound=True)
    assert amount_of(part) == Amount(2.5, at_least=True)
    assert amount_of(None) is None


def test_a_range_is_three_numbers_as_json() -> None:
    found = AmountRange(Amount(2, at_least=True), Amount(1, at_least=True), Amount(4))
    assert found.as_json() == {"value": 2, "low": 1, "high": 4}


def test_a_part_of_an_amount_keeps_its_bound() -> None:
    assert Amount(3.0, at_least=True) / 2 == Amount(1.5, at_least=True)
