"""Metrics of a server, for Prometheus. The unit of work is an image, not a request."""

from collections.abc import Iterable

from workloads.common.metrics import Registry

from .work import STAGES

WAITING = "diffusion_images_waiting"
MODEL_WAITING = "diffusion_model_images_waiting"
RUNNING = "diffusion_images_running"
_SECONDS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1.2, 2, 3, 5, 8, 12, 20, 30, 60, 120, 300, 600)
_STAGE_SECONDS = (0.001, 0.003, 0.01, 0.03, 0.06, 0.1, 0.15, 0.2, 0.3, 0.5, 1, 2, 5, 10, 30)
OUTCOMES = ("cancelled", "drawn", "failed", "refused", "timed_out")


class Metrics(Registry):
    """Metrics of one server.

    Args:
        models: Names of its models, without adapters.
    """

    def __init__(self, models: Iterable[str]) -> None:
        super().__init__()
        self.waiting = self.gauge(WAITING, "Images that wait for a chip.")
        self.running = self.gauge(RUNNING, "Images that are being generated.")
        self.queue_limit = self.gauge("diffusion_queue_limit", "Maximum number of waiting images.")
        self.workers = self.gauge(
            "diffusion_workers", "Processes by state, one per chip.", ["state"]
        )
        self.model_waiting = self.gauge(
            MODEL_WAITING, "Images that wait for a chip, by model.", ["model_name"]
        )
        self.model_workers = self.gauge(
            "diffusion_model_workers", "Processes that hold a model.", ["model_name", "state"]
        )
        self.images = self.counter(
            "diffusion_images",
            "Images by model and outcome.",
            ["model_name", "outcome"],
        )
        self.requests = self.counter("diffusion_requests", "Requests by HTTP status.", ["code"])
        self.request_seconds = self.histogram(
            "diffusion_request_seconds",
            "Time from the request to its complete answer.",
            _SECONDS,
            ["model_name"],
        )
        self.queue_seconds = self.histogram(
            "diffusion_queue_seconds", "Time that an image waits for a chip.", _SECONDS
        )
        self.stage_seconds = self.histogram(
            "diffusion_stage_seconds",
            "One pass of a batch through a stage; a denoising step is one pass.",
            _STAGE_SECONDS,
            ["stage"],
        )
        self.batch_images = self.histogram(
            "diffusion_batch_images", "Images per batch.", (1, 2, 3, 4, 6, 8, 16)
        )
        for stage in STAGES:
            self.stage_seconds.labels(stage)
        for model in models:
            self.request_seconds.labels(model)
            for outcome in OUTCOMES:
                self.images.labels(model, outcome)
