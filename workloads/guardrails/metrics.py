"""Prometheus metrics of the guard."""

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)


class Metrics:
    """The metrics of one process."""

    def __init__(self) -> None:
        registry = CollectorRegistry()
        self._registry = registry
        self.checks = Counter(
            "guardrails_checks",
            "Checks by phase (input, output) and action (allow, block, replace, failed).",
            ["phase", "action"],
            registry=registry,
        )
        self.seconds = Histogram(
            "guardrails_check_seconds",
            "Time of a check by phase, in seconds.",
            ["phase"],
            buckets=_SECONDS,
            registry=registry,
        )

    def page(self) -> bytes:
        """Return the metrics in Prometheus' text format."""
        return generate_latest(self._registry)
