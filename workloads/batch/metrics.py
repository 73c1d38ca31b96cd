"""Prometheus metrics of the service and the workers."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.1, 0.3, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600)
BACKLOG = "gke_inference_batch_backlog"


class WorkerMetrics:
    """The metrics of one worker."""

    def __init__(self) -> None:
        registry = CollectorRegistry()
        self._registry = registry
        self._requests = Counter(
            "gke_inference_batch_requests",
            "Batch requests by outcome.",
            ["outcome"],
            registry=registry,
        )
        for outcome in ("completed", "failed"):
            self._requests.labels(outcome)
        self._retries = Counter(
            "gke_inference_batch_retries",
            "Attempts that failed and were repeated, by what the pool said.",
            ["status"],
            registry=registry,
        )
        self.limit = Gauge(
            "gke_inference_batch_limit", "Requests that may be under way.", registry=registry
        )
        self.running = Gauge(
            "gke_inference_batch_running", "Requests under way.", registry=registry
        )
        self.seconds = Histogram(
            "gke_inference_batch_seconds",
            "From the first attempt at a request to its answer.",
            buckets=_SECONDS,
            registry=registry,
        )

    def answered(self, is_good: bool) -> None:
        """Count a stored answer."""
        self._requests.labels("completed" if is_good else "failed").inc()

    def retried(self, status: str) -> None:
        """Count a repeated attempt."""
        self._retries.labels(status).inc()

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self._registry)


class ServiceMetrics:
    """The metrics of one replica of the service."""

    def __init__(self) -> None:
        registry = CollectorRegistry()
        self._registry = registry
        self.backlog = Gauge(
            BACKLOG,
            "Requests of open batches that are not answered, divided by the service's replicas.",
            registry=registry,
        )
        self.window_used = Gauge(
            "gke_inference_batch_window_used_ratio",
            "Share of its completion window that the oldest open batch has used.",
            registry=registry,
        )
        self._batches = Counter(
            "gke_inference_batch_batches",
            "Batches by the status that they ended with.",
            ["status"],
            registry=registry,
        )
        for status in ("cancelled", "completed", "expired", "failed"):
            self._batches.labels(status)
        self._calls = Counter(
            "gke_inference_batch_calls",
            "Calls of the API by method, path and status.",
            ["method", "path", "status"],
            registry=registry,
        )

    def ended(self, status: str) -> None:
        """Count a finished batch."""
        self._batches.labels(status).inc()

    def called(self, method: str, path: str, status: int) -> None:
        """Count a call."""
        self._calls.labels(method, path, str(status)).inc()

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self._registry)
