"""Prometheus metrics of the service and the workers."""

from workloads.common.metrics import ANSWER_SECONDS, Registry

BACKLOG = "gke_inference_batch_backlog"


class WorkerMetrics(Registry):
    """The metrics of one worker."""

    def __init__(self) -> None:
        super().__init__()
        self._requests = self.counter(
            "gke_inference_batch_requests", "Batch requests by outcome.", ["outcome"]
        )
        for outcome in ("completed", "failed"):
            self._requests.labels(outcome)
        self._retries = self.counter(
            "gke_inference_batch_retries",
            "Attempts that failed and were repeated, by what the pool said.",
            ["status"],
        )
        self.limit = self.gauge("gke_inference_batch_limit", "Requests that may be under way.")
        self.running = self.gauge("gke_inference_batch_running", "Requests under way.")
        self.seconds = self.histogram(
            "gke_inference_batch_seconds",
            "From the first attempt at a request to its answer.",
            ANSWER_SECONDS,
        )

    def answered(self, is_good: bool) -> None:
        """Count a stored answer."""
        self._requests.labels("completed" if is_good else "failed").inc()

    def retried(self, status: str) -> None:
        """Count a repeated attempt."""
        self._retries.labels(status).inc()


class ServiceMetrics(Registry):
    """The metrics of one replica of the service."""

    def __init__(self) -> None:
        super().__init__()
        self.backlog = self.gauge(
            BACKLOG,
            "Requests of open batches that are not answered, divided by the service's replicas.",
        )
        self.window_used = self.gauge(
            "gke_inference_batch_window_used_ratio",
            "Share of its completion window that the oldest open batch has used.",
        )
        self._batches = self.counter(
            "gke_inference_batch_batches", "Batches by the status that they ended with.", ["status"]
        )
        for status in ("cancelled", "completed", "expired", "failed"):
            self._batches.labels(status)
        self._calls = self.counter(
            "gke_inference_batch_calls",
            "Calls of the API by method, path and status.",
            ["method", "path", "status"],
        )

    def ended(self, status: str) -> None:
        """Count a finished batch."""
        self._batches.labels(status).inc()

    def called(self, method: str, path: str, status: int) -> None:
        """Count a call."""
        self._calls.labels(method, path, str(status)).inc()
