"""Growth of engines' counters, from Prometheus."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from gke_inference.catalogue.engines import Metrics
from simulator.engine.step_times import Period
from twin.cluster.monitoring.promql import Series

SCRAPE_SECONDS: Final = 15.0
_OWN: Final = ("cluster", "location", "namespace", "pod", "instance", "engine", "dp_rank")
"""Labels that tell engines apart. A server with data parallelism has several: vLLM numbers them in
`engine` (v1/metrics/loggers.py of 0.32.0), SGLang in `dp_rank` (srt/observability/
metrics_collector.py of 0.5.23). Others, such as `is_streaming`, divide the counts of one engine."""
_NEEDED: Final = frozenset(
    {"between_tokens", "between_seconds", "prompts", "first_seconds", "prompt_tokens"}
)
Range = Callable[[str], Sequence[Series]]
"""Returns the series of an expression over the time that is compared, a point per scrape."""
Labels = Mapping[str, str]


def counters(metrics: Metrics) -> dict[str, str]:
    """Return the names of an engine's counters by what they count; empty if it has not all."""
    between, first = metrics.between_tokens, metrics.first_token
    if between is None or first is None or metrics.prompt_tokens is None:
        return {}
    found = {
        "between_tokens": f"{between}_count",
        "between_seconds": f"{between}_sum",
        "prompts": f"{first}_count",
        "first_seconds": f"{first}_sum",
        "prompt_tokens": metrics.prompt_tokens,
    }
    if metrics.cached_tokens is not None:
        found["cached_tokens"] = metrics.cached_tokens
    if metrics.queue_time is not None:
        found["queued"] = f"{metrics.queue_time}_count"
        found["queue_seconds"] = f"{metrics.queue_time}_sum"
    return found


@dataclass(frozen=True)
class Grown:
    """Growth of the counters of some engines."""

    periods: tuple[Period, ...]
    totals: Mapping[str, float]
    """By key of `counters`, without those that Prometheus does not have."""
    replicas: int

    def mean(self, total: str, of: str) -> float | None:
        """Return a total divided by another; None if that is 0, or one is not stored."""
        count = self.totals.get(of)
        return self.totals[total] / count if count and total in self.totals else None

    @property
    def output_tokens(self) -> float:
        """Mean tokens of an answer."""
        return 1 + (self.mean("between_tokens", "prompts") or 0.0)


def together(found: Sequence[Grown]) -> Grown:
    """Return the growth of several groups of engines as that of one."""
    totals: dict[str, float] = {}
    for each in found:
        for key, value in each.totals.items():
            totals[key] = totals.get(key, 0.0) + value
    periods = tuple(period for each in found for period in each.periods)
    return Grown(periods, totals, sum(each.replicas for each in found))


@dataclass(frozen=True)
class EngineSeries:
    """The counters of one engine."""

    labels: Labels
    """Labels that all its series have with the same value."""
    points: Mapping[str, Mapping[float, float]]
    """Values by key of `counters` and time."""

    def grown(self) -> Grown:
        """Return the growth between scrapes.

        A counter that falls began again, with a new process: that period is left out. A single
        period in which nothing grew belongs to the next one: there was no scrape in it. In several,
        there was no request.
        """
        times = sorted(set[float].intersection(*(set(self.points[key]) for key in _NEEDED)))
        totals = dict.fromkeys(self.points, 0.0)
        periods: list[Period] = []
        still = 0
        for number, (before, after) in enumerate(pairwise(times), 1):
            growth = {
                key: each.get(after, 0.0) - each.get(before, 0.0)
                for key, each in self.points.items()
            }
            if min(growth.values()) < 0:
                still = 0
                continue
            if not any(growth.values()):
                still += 1
                continue
            since = times[number - 2] if still == 1 else before
            still = 0
            for key, value in growth.items():
                totals[key] += value
            computed = growth["prompt_tokens"] - growth.get("cached_tokens", 0.0)
            periods.append(
                Period(
                    after - since, growth["between_tokens"], growth["between_seconds"],
                    growth["prompts"], max(computed, 0.0),
                )
            )  # fmt: skip
        return Grown(tuple(periods), totals, 1)


def engines(query: Range, names: Mapping[str, str], matchers: str) -> list[EngineSeries]:
    """Return the engines that have all needed counters.

    Args:
        query: Asks Prometheus.
        names: Names by key, as from `counters`.
        matchers: PromQL matchers; empty for all series.
    """
    points: dict[tuple[tuple[str, str], ...], dict[str, dict[float, float]]] = {}
    common: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}
    for key, name in names.items():
        for series in query(f"{name}{{{matchers}}}" if matchers else name):
            labels = {k: v for k, v in series.labels.items() if k != "__name__"}
            own = tuple((each, labels[each]) for each in _OWN if each in labels)
            shared = common.setdefault(own, labels)
            common[own] = {k: v for k, v in shared.items() if labels.get(k) == v}
            values = points.setdefault(own, {}).setdefault(key, {})
            for at, value in series.points:
                values[at] = values.get(at, 0.0) + value
    return [
        EngineSeries(common[own], found) for own, found in points.items() if found.keys() >= _NEEDED
    ]
