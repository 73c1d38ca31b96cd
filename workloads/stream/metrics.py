"""Prometheus metrics of a worker."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.1, 0.3, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600)
OUTCOMES = ("answered", "dead", "returned")
BACKLOG = "gke_inference_stream_backlog"


class Metrics:
    """The metrics of one worker, each with the label `stream`."""

    def __init__(self, stream: str) -> None:
        registry = CollectorRegistry()
        self._registry = registry
        messages = Counter(
            "gke_inference_stream_messages",
            "Messages by what became of them.",
            ["stream", "outcome"],
            registry=registry,
        )
        self.outcomes = {word: messages.labels(stream, word) for word in OUTCOMES}
        self._letters = Counter(
            "gke_inference_stream_dead_letters",
            "Messages that no attempt helps, by reason.",
            ["stream", "reason"],
            registry=registry,
        )
        self._retries = Counter(
            "gke_inference_stream_retries",
            "Attempts that failed and were repeated, by what the pool said.",
            ["stream", "status"],
            registry=registry,
        )
        self.limit = self._gauge("limit", "Requests that may be under way.", stream, registry)
        self.running = self._gauge("running", "Requests under way.", stream, registry)
        self.backlog = Gauge(
            BACKLOG,
            "Messages of the worker's share that are not answered, where the source tells.",
            ["stream"],
            registry=registry,
        )
        self.seconds = Histogram(
            "gke_inference_stream_seconds",
            "From the receipt of a message to its acknowledgement.",
            ["stream"],
            buckets=_SECONDS,
            registry=registry,
        ).labels(stream)
        self._stream = stream

    @staticmethod
    def _gauge(name: str, text: str, stream: str, registry: CollectorRegistry) -> Gauge:
        full = f"gke_inference_stream_{name}"
        return Gauge(full, text, ["stream"], registry=registry).labels(stream)

    def died(self, reason: str) -> None:
        """Count a dead letter."""
        self.outcomes["dead"].inc()
        self._letters.labels(self._stream, reason).inc()

    def retried(self, status: str) -> None:
        """Count an attempt that is repeated."""
        self._retries.labels(self._stream, status).inc()

    def lag(self, messages: int) -> None:
        """Record the backlog."""
        self.backlog.labels(self._stream).set(messages)

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self._registry)
