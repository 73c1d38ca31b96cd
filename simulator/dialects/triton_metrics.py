"""Triton's metrics with TensorRT-LLM: those of its batch manager, and Triton's own."""

import time

from simulator.dialects.exporting import Families, OtherMetrics
from simulator.engine.request import Request
from simulator.engine.scheduler import Scheduler
from simulator.engine.settings import Deployment

BATCHER = "tensorrt_llm"
"""The model in a repository that computes; the model with the client's name calls it."""
_VERSION = "1"
_US = 1e6


class TritonMetrics(OtherMetrics):
    """The metrics of one Triton server.

    Args:
        deployment: deployment of the server.
        models: models of its repository.
    """

    def __init__(self, deployment: Deployment, models: tuple[str, ...]) -> None:
        self._models = models
        self._batcher = BATCHER if BATCHER in models else models[0] if models else BATCHER
        self._most = deployment.max_sequences
        self._steps = 0
        super().__init__(deployment, Families("triton", {"version": _VERSION}))
        for model in models:
            for name in ("success", "duration_us"):
                self.families.add(f"nv_inference_request_{name}", 0, model=model)
            for name in ("count", "exec_count", "queue_duration_us", "compute_infer_duration_us"):
                self.families.add(f"nv_inference_{name}", 0, model=model)
            self.families.add("nv_inference_request_failure", 0, model=model, reason="OTHER")
            self.families.set("nv_inference_pending_request_count", 0, model=model)
        for kind, size in (
            ("gpu", deployment.shape.weights_gb * 1e9),
            ("cpu", 0),
            ("pinned", 0),
        ):
            self._set("runtime_memory_metrics", size, memory_type=kind)

    def _set(self, name: str, value: float, **labels: str) -> None:
        self.families.set(f"nv_trt_llm_{name}", value, model=self._batcher, **labels)

    def on_state(self, scheduler: Scheduler) -> None:
        """Update the metrics of the batch manager."""
        cache, running = scheduler.cache, scheduler.running
        reading = sum(not each.generated for each in running)
        waiting = len(scheduler.waiting)
        for kind, count in (
            ("waiting", waiting),
            ("context", reading),
            ("scheduled", len(running)),
            ("max", self._most),
            ("active", len(running) + waiting),
        ):
            self._set("request_metrics", count, request_type=kind)
        used = cache.blocks - cache.free_blocks
        for kind, value in (
            ("fraction", cache.usage),
            ("tokens_per", cache.block_size),
            ("used", used),
            ("free", cache.free_blocks),
            ("max", cache.blocks),
        ):
            self._set("kv_cache_block_metrics", value, kv_cache_block_type=kind)
        for kind, value in (
            ("micro_batch_id", 0),
            ("generation_requests", len(running) - reading),
            ("total_context_tokens", sum(len(r.prompt) for r in running if not r.generated)),
        ):
            self._set("inflight_batcher_metrics", value, inflight_batcher_specific_metric=kind)
        self._set("general_metrics", self._steps, general_type="iteration_counter")
        self._set("general_metrics", time.time(), general_type="timestamp")

    def on_step(self, load: object) -> None:
        """Count an iteration."""
        self._steps += 1

    def on_end(self, request: Request, now: float) -> None:
        """Record a finished request for every model that it passes."""
        begun = request.first_scheduled or request.arrival
        for model in self._models:
            for name in ("request_success", "count", "exec_count"):
                self.families.add(f"nv_inference_{name}", 1, model=model)
            for name, seconds in (
                ("request_duration_us", now - request.arrival),
                ("queue_duration_us", begun - request.arrival),
                ("compute_infer_duration_us", now - begun),
            ):
                self.families.add(f"nv_inference_{name}", seconds * _US, model=model)

    def on_abort(self, request: Request) -> None:
        """Record a failed request."""
        for model in self._models:
            self.families.add("nv_inference_request_failure", 1, model=model, reason="OTHER")
