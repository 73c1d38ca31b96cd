"""The time that the callout itself takes, from its own histogram."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

METRIC = "callout_processing_seconds"
_SAMPLE = re.compile(rf"^{METRIC}_(bucket|sum|count)\{{(.*)\}} (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')


@dataclass
class Histogram:
    """Observations up to each bound, in seconds, with their sum."""

    buckets: dict[float, float] = field(default_factory=dict[float, float])
    sum: float = 0.0
    count: float = 0.0

    def since(self, before: "Histogram") -> "Histogram":
        """Return the observations that were added after an earlier state."""
        buckets = {bound: n - before.buckets.get(bound, 0) for bound, n in self.buckets.items()}
        return Histogram(buckets, self.sum - before.sum, self.count - before.count)

    def quantile(self, share: float) -> float | None:
        """Return a quantile in seconds, interpolated within its bucket as PromQL does.

        None if there are no observations, or if the quantile is above the last finite bound.
        """
        rank = share * self.count
        for (below, least), (bound, most) in pairwise([(0.0, 0.0), *sorted(self.buckets.items())]):
            if most >= rank and most > least:
                within = (rank - least) / (most - least)
                return None if bound == float("inf") else below + (bound - below) * within
        return None


def phases_of(page: str) -> dict[str, Histogram]:
    """Return the histogram of each phase in a page of metrics."""
    found: dict[str, Histogram] = {}
    for kind, labels, value in _SAMPLE.findall(page):
        given = dict(_LABEL.findall(labels))
        histogram = found.setdefault(given["phase"], Histogram())
        if kind == "bucket":
            histogram.buckets[float(given["le"])] = float(value)
        elif kind == "sum":
            histogram.sum = float(value)
        else:
            histogram.count = float(value)
    return found


def added(before: str, after: str) -> dict[str, Histogram]:
    """Return the observations of each phase between two pages of metrics."""
    old = phases_of(before)
    new = {
        phase: found.since(old.get(phase, Histogram())) for phase, found in phases_of(after).items()
    }
    return {phase: found for phase, found in new.items() if found.count}


def phase_rows(phases: Mapping[str, Histogram]) -> Iterator[dict[str, object]]:
    """Yield the median and the 99th percentile of each phase, in milliseconds."""
    for phase, found in sorted(phases.items()):
        p50, p99 = (_milliseconds(found.quantile(share)) for share in (0.5, 0.99))
        yield {
            "what": f"in the callout: {phase}",
            "n": int(found.count),
            "p50_ms": p50,
            "p99_ms": p99,
        }


def own_mean_ms(phases: Mapping[str, Histogram], requests: int) -> float:
    """Return the mean time that the callout itself takes for a request, in milliseconds."""
    return round(1000 * sum(found.sum for found in phases.values()) / requests, 3)


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(1000 * seconds, 3)
