"""When a canary is worse than the stable version."""

import math

import pytest

from scripts.canary.comparison import (
    Finding,
    Rule,
    Share,
    bound_of_quantile,
    compare,
    probability,
    slow,
)

RULE = Rule(alpha=0.01, margin_percent=1.0, least_requests=50)
BUCKETS = [(0.1, 40.0), (0.5, 90.0), (1.0, 98.0), (math.inf, 100.0)]


@pytest.mark.parametrize(
    ("canary", "stable", "expected"),
    [
        # Fisher's tea: 3 of 4 against 1 of 4 is 17 of 70 arrangements
        (Share(3, 4), Share(1, 4), 17 / 70),
        (Share(4, 4), Share(0, 4), 1 / 70),
        (Share(0, 100), Share(5, 100), 1.0),
        (Share(0, 10), Share(0, 10), 1.0),
    ],
)
def test_the_probability_is_that_of_fishers_exact_test(canary, stable, expected):
    assert probability(canary, stable) == pytest.approx(expected)


def test_many_requests_are_counted_without_a_sum_over_all_of_them():
    assert probability(Share(900, 50_000), Share(100, 50_000)) < 1e-12
    assert probability(Share(500, 50_000), Share(500, 50_000)) == pytest.approx(0.51, abs=0.01)


@pytest.mark.parametrize(
    ("canary", "stable", "finding"),
    [
        (Share(49, 49), Share(0, 1000), Finding.TOO_FEW),
        (Share(50, 50), Share(0, 0), Finding.TOO_FEW),
        (Share(50, 50), Share(0, 5), Finding.WORSE),
        (Share(50, 50), Share(0, 1), Finding.NOT_WORSE),  # one request proves nothing
        (Share(10, 50), Share(0, 1000), Finding.WORSE),
        (Share(1, 50), Share(0, 50), Finding.NOT_WORSE),  # by chance in half of all cases
        (Share(150, 50_000), Share(0, 50_000), Finding.NOT_WORSE),  # sure, and below the margin
        (Share(0, 1000), Share(900, 1000), Finding.NOT_WORSE),  # better is not worse
    ],
)
def test_worse_is_a_difference_that_is_large_and_not_by_chance(canary, stable, finding):
    assert compare(canary, stable, RULE) is finding


def test_late_first_tokens_are_those_beyond_the_bucket_of_the_threshold():
    assert slow(BUCKETS, 0.5) == Share(10, 100)
    assert slow(BUCKETS, 0.6) == Share(2, 100)
    assert slow(BUCKETS, math.inf) == Share(0, 100)
    assert slow([], 1.0) == Share(0, 0)


def test_the_threshold_without_a_promise_is_the_bucket_of_the_95th_percentile():
    assert bound_of_quantile(BUCKETS, 0.95) == 1.0
    assert bound_of_quantile(BUCKETS, 0.99) is None
    assert bound_of_quantile([], 0.95) is None


def test_a_share_of_more_than_all_is_refused():
    with pytest.raises(ValueError, match="bad must be 0 to 3, got 4"):
        Share(4, 3)
