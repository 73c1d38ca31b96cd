"""Prometheus metrics of a worker."""

from workloads.common.metrics import ANSWER_SECONDS, Registry

OUTCOMES = ("answered", "dead", "returned")
BACKLOG = "gke_inference_stream_backlog"


class Metrics(Registry):
    """The metrics of one worker, each with the label `stream`."""

    def __init__(self, stream: str) -> None:
        super().__init__()
        messages = self.counter(
            "gke_inference_stream_messages",
            "Messages by what became of them.",
            ["stream", "outcome"],
        )
        self.outcomes = {word: messages.labels(stream, word) for word in OUTCOMES}
        self._letters = self.counter(
            "gke_inference_stream_dead_letters",
            "Messages that no attempt helps, by reason.",
            ["stream", "reason"],
        )
        self._retries = self.counter(
            "gke_inference_stream_retries",
            "Attempts that failed and were repeated, by what the pool said.",
            ["stream", "status"],
        )
        self.limit = self.gauge(
            "gke_inference_stream_limit", "Requests that may be under way.", ["stream"]
        ).labels(stream)
        self.running = self.gauge(
            "gke_inference_stream_running", "Requests under way.", ["stream"]
        ).labels(stream)
        self.backlog = self.gauge(
            BACKLOG,
            "Messages of the worker's share that are not answered, where the source tells.",
            ["stream"],
        )
        self.seconds = self.histogram(
            "gke_inference_stream_seconds",
            "From the receipt of a message to its acknowledgement.",
            ANSWER_SECONDS,
            ["stream"],
        ).labels(stream)
        self._stream = stream

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
