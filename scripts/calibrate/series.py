"""Growth of engines' counters, from Prometheus."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from simulator.engine.step_times import Period
from twin.cluster.monitoring.promql import Series

SCRAPE_SECONDS: Final = 15.0
COUNTERS: Final = {
    "steps": "vllm:iteration_tokens_total_count",
    "between_tokens": "vllm:inter_token_latency_seconds_count",
    "between_seconds": "vllm:inter_token_latency_seconds_sum",
    "prompts": "vllm:time_to_first_token_seconds_count",
    "first_seconds": "vllm:time_to_first_token_seconds_sum",
    "prompt_tokens": "vllm:prompt_tokens_total",
    "cached_tokens": "vllm:prompt_tokens_cached_total",
    "answers": "vllm:request_generation_tokens_count",
    "answer_tokens": "vllm:request_generation_tokens_sum",
    "queue_seconds": "vllm:request_queue_time_seconds_sum",
    "queued": "vllm:request_queue_time_seconds_count",
}
"""vLLM's counters (docs.vllm.ai, Production Metrics)."""
Range = Callable[[str], Sequence[Series]]
"""Returns the series of an expression over the period, one point per scrape."""


@dataclass(frozen=True)
class Grown:
    """Growth of all counters of all engines."""

    periods: tuple[Period, ...]
    totals: Mapping[str, float]
    """By key of `COUNTERS`."""
    replicas: int

    def mean(self, total: str, of: str) -> float | None:
        """Return a total divided by another; None if that is 0."""
        return self.totals[total] / self.totals[of] if self.totals[of] else None


def grown(query: Range, matchers: str) -> Grown:
    """Return the growth of the counters of engines between their scrapes.

    A counter that falls began again, with a new engine: that period is left out.
    """
    by_engine: dict[frozenset[tuple[str, str]], dict[str, dict[float, float]]] = {}
    for key, name in COUNTERS.items():
        for series in query(f"{name}{{{matchers}}}" if matchers else name):
            labels = frozenset(
                (label, value) for label, value in series.labels.items() if label != "__name__"
            )
            by_engine.setdefault(labels, {})[key] = dict(series.points)
    totals = dict.fromkeys(COUNTERS, 0.0)
    periods: list[Period] = []
    for counters in by_engine.values():
        if counters.keys() != COUNTERS.keys():
            continue
        times = sorted(set[float].intersection(*(set(each) for each in counters.values())))
        for before, after in pairwise(times):
            growth = {key: each[after] - each[before] for key, each in counters.items()}
            if min(growth.values()) < 0:
                continue
            for key, value in growth.items():
                totals[key] += value
            periods.append(
                Period(
                    growth["steps"], growth["between_tokens"], growth["between_seconds"],
                    growth["prompts"], growth["prompt_tokens"] - growth["cached_tokens"],
                )
            )  # fmt: skip
    return Grown(tuple(periods), totals, len(by_engine))
