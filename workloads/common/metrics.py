"""Prometheus metrics of a program."""

from collections.abc import Iterable, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

ANSWER_SECONDS = (0.1, 0.3, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600)
"""Bounds of the time to an answer, in seconds."""


class Registry:
    """The metrics of one program; a subclass creates them in its constructor."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()

    def counter(self, name: str, text: str, labels: Iterable[str] = ()) -> Counter:
        """Return a new counter."""
        return Counter(name, text, labels, registry=self._registry)

    def gauge(self, name: str, text: str, labels: Iterable[str] = ()) -> Gauge:
        """Return a new gauge."""
        return Gauge(name, text, labels, registry=self._registry)

    def histogram(
        self, name: str, text: str, buckets: Sequence[float], labels: Iterable[str] = ()
    ) -> Histogram:
        """Return a new histogram."""
        return Histogram(name, text, labels, buckets=buckets, registry=self._registry)

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self._registry)
