"""Sorting in bounded memory: the order is that of a sort, whatever fits."""

import random

import pytest

from simulator.demand.ordering import sorted_within


@pytest.mark.parametrize("held", [4, 50, 10_000])
def test_items_in_any_order_come_sorted_and_equal_times_in_their_order(held):
    mixed = random.Random(0)
    items = [(float(mixed.randrange(300)), number) for number in range(1_000)]
    assert list(sorted_within(items, held=held)) == sorted(items)


def test_items_that_are_early_by_less_than_the_tolerance_are_yielded_while_the_source_is_read():
    taken = []

    def source():
        for number in range(1_000):
            taken.append(number)
            yield number + (3.5 if number % 5 == 0 else 0.0), number

    found = sorted_within(source(), back_seconds=5.0, held=40)
    first = [next(found) for _ in range(100)]
    assert first == sorted(first)
    assert len(taken) < 200
    rest = list(found)
    assert rest == sorted(rest)
    assert len(first) + len(rest) == 1_000
