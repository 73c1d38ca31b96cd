"""Whether a canary is worse than the stable version: shares of bad requests, compared.

Both measures are shares: requests that failed, and requests whose first token came later than a
threshold. A canary is worse if its share is higher by a margin, and if Fisher's exact test, one
sided, would see such a difference by chance less often than `alpha`. The test is exact for small
numbers, and needs no assumption about the shape of latencies.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

_TAIL = 1e-12


class Finding(StrEnum):
    """Result of a comparison."""

    TOO_FEW = "too few requests"
    NOT_WORSE = "not worse"
    WORSE = "worse"


@dataclass(frozen=True)
class Share:
    """Bad requests among all."""

    bad: int
    total: int

    def __post_init__(self) -> None:
        """Check that the numbers form a share.

        Raises:
            ValueError: There are more bad requests than requests.
        """
        if not 0 <= self.bad <= self.total:
            raise ValueError(f"bad must be 0 to {self.total}, got {self.bad}")

    @property
    def percent(self) -> float:
        """The share in percent; 0 without requests."""
        return 100 * self.bad / self.total if self.total else 0.0


@dataclass(frozen=True)
class Rule:
    """Rule for judging a canary as worse."""

    alpha: float
    """Maximum probability of a difference by chance."""
    margin_percent: float
    """Minimum difference of the shares, in percentage points."""
    least_requests: int
    """Minimum number of canary requests."""


def compare(canary: Share, stable: Share, rule: Rule) -> Finding:
    """Return whether a canary is worse than the stable version.

    The test is exact for any number of requests of the stable version, so that a few are enough.
    """
    if canary.total < rule.least_requests or not stable.total:
        return Finding.TOO_FEW
    if canary.percent - stable.percent < rule.margin_percent:
        return Finding.NOT_WORSE
    return Finding.WORSE if probability(canary, stable) < rule.alpha else Finding.NOT_WORSE


def probability(canary: Share, stable: Share) -> float:
    """Return the probability that chance alone gives a canary at least as many bad requests.

    It is the upper tail of the hypergeometric distribution: requests are assigned to both versions
    at random, and no request is bad because of its version.
    """
    bad, total = canary.bad + stable.bad, canary.total + stable.total
    found = 0.0
    whole = _log_choose(total, canary.total)
    for count in range(canary.bad, min(bad, canary.total) + 1):
        if canary.total - count > total - bad:
            continue
        term = _log_choose(bad, count) + _log_choose(total - bad, canary.total - count) - whole
        found += math.exp(term)
        if found > _TAIL and term < math.log(_TAIL):
            break  # the rest of the tail is negligible
    return min(found, 1.0)


def _log_choose(of: int, some: int) -> float:
    return math.lgamma(of + 1) - math.lgamma(some + 1) - math.lgamma(of - some + 1)


def common_bounds(
    one: Sequence[tuple[float, float]], other: Sequence[tuple[float, float]]
) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """Return two histograms, reduced to their common bounds."""
    both = {bound for bound, _ in one} & {bound for bound, _ in other}
    first, second = (
        sorted(each for each in histogram if each[0] in both) for histogram in (one, other)
    )
    return first, second


def slow(buckets: Sequence[tuple[float, float]], threshold: float) -> Share:
    """Return the number of requests in a histogram that took longer than a threshold.

    Args:
        buckets: Upper bound and cumulative count of each bucket; the last bound is infinite.
        threshold: Threshold in the unit of the bounds, rounded up to the next bound, so that no
            request counts as slow that may have been in time.
    """
    ordered = sorted(buckets)
    if not ordered:
        return Share(0, 0)
    total = round(ordered[-1][1])
    quick = next(count for bound, count in ordered if bound >= threshold)
    return Share(max(0, total - round(quick)), total)


def bound_of_quantile(buckets: Sequence[tuple[float, float]], quantile: float) -> float | None:
    """Return the bound of a quantile's bucket; None without requests or beyond the last bound."""
    ordered = sorted(buckets)
    if not ordered or not ordered[-1][1]:
        return None
    wanted = quantile * ordered[-1][1]
    found = next(bound for bound, count in ordered if count >= wanted)
    return None if math.isinf(found) else found
