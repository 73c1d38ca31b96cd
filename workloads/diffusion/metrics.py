"""Metrics of a server, for Prometheus. The unit of work is an image, not a request."""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from .work import STAGES

WAITING = "diffusion_pictures_waiting"
RUNNING = "diffusion_pictures_running"
_SECONDS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1.2, 2, 3, 5, 8, 12, 20, 30, 60, 120, 300, 600)
_STAGE_SECONDS = (0.001, 0.003, 0.01, 0.03, 0.06, 0.1, 0.15, 0.2, 0.3, 0.5, 1, 2, 5, 10, 30)
OUTCOMES = ("cancelled", "drawn", "failed", "refused", "timed_out")


class Metrics:
    """Metrics of one server.

    Args:
        models: Names of its models, without adapters.
    """

    def __init__(self, models: Iterable[str]) -> None:
        registry = CollectorRegistry()
        self._registry = registry
        self.waiting = Gauge(WAITING, "Images that wait for a chip.", registry=registry)
        self.running = Gauge(RUNNING, "Images that are being generated.", registry=registry)
        self.queue_limit = Gauge(
            "diffusion_queue_limit", "Maximum number of waiting images.", registry=registry
        )
        self.workers = Gauge(
            "diffusion_workers", "Processes by state, one per chip.", ["state"], registry=registry
        )
        self.images = Counter(
            "diffusion_images",
            "Images by model and outcome.",
            ["model_name", "outcome"],
            registry=registry,
        )
        self.requests = Counter(
            "diffusion_requests", "Requests by HTTP status.", ["code"], registry=registry
        )
        self.request_seconds = Histogram(
            "diffusion_request_seconds",
            "Time from the request to its complete answer.",
            ["model_name"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.queue_seconds = Histogram(
            "diffusion_queue_seconds",
            "Time that an image waits for a chip.",
            buckets=_SECONDS,
            registry=registry,
        )
        self.stage_seconds = Histogram(
            "diffusion_stage_seconds",
            "One pass of a batch through a stage; a denoising step is one pass.",
            ["stage"],
            buckets=_STAGE_SECONDS,
            registry=registry,
        )
        self.batch_pictures = Histogram(
            "diffusion_batch_pictures",
            "Images per batch.",
            buckets=(1, 2, 3, 4, 6, 8, 16),
            registry=registry,
        )
        for stage in STAGES:
            self.stage_seconds.labels(stage)
        for model in models:
            self.request_seconds.labels(model)
            for outcome in OUTCOMES:
                self.images.labels(model, outcome)

    def page(self) -> bytes:
        """Return the content of `/metrics`."""
        return generate_latest(self._registry)
