"""Triton's metrics of inference requests: docs/user_guide/metrics.md at v2.70.0."""

from collections.abc import Sequence

from simulator.dialects.exporting import Families

_US = 1e6
_DURATIONS = ("compute_input", "compute_infer", "compute_output")


class ServerMetrics:
    """The metrics of one server; each model has all of them from its load on."""

    def __init__(self) -> None:
        self._families = Families("triton", {})

    def add_model(self, model: str, version: str) -> None:
        """Add the series of a model."""
        self._add("request_success", 0, model, version)
        self._add("count", 0, model, version)
        self._add("exec_count", 0, model, version)
        for name in ("request", "queue", *_DURATIONS):
            self._add(f"{name}_duration_us", 0, model, version)
        for reason in ("REJECTED", "CANCELED", "BACKEND", "OTHER"):
            self.add_failures(model, version, reason, 0)
        self.set_pending(model, version, 0)

    def set_pending(self, model: str, version: str, count: int) -> None:
        """Set the number of requests that wait for an instance."""
        name = "nv_inference_pending_request_count"
        self._families.set(name, count, model=model, version=version)

    def add_failures(self, model: str, version: str, reason: str, count: int) -> None:
        """Count failed requests."""
        name = "nv_inference_request_failure"
        self._families.add(name, count, model=model, version=version, reason=reason)

    def add_execution(
        self,
        model: str,
        version: str,
        *,
        sizes: Sequence[int],
        waits: Sequence[float],
        stages: tuple[float, float, float],
    ) -> None:
        """Count an execution: batch sizes and waits of its requests, and its stages, in seconds.

        A request takes each stage as long as the execution it is in.
        """
        self._add("exec_count", 1, model, version)
        self._add("request_success", len(sizes), model, version)
        self._add("count", sum(sizes), model, version)
        self._add("queue_duration_us", sum(waits) * _US, model, version)
        for name, seconds in zip(_DURATIONS, stages, strict=True):
            self._add(f"{name}_duration_us", seconds * len(sizes) * _US, model, version)
        whole = sum(waits) + sum(stages) * len(sizes)
        self._add("request_duration_us", whole * _US, model, version)

    def page(self) -> str:
        """Return the page `/metrics`."""
        return self._families.render()

    def _add(self, name: str, amount: float, model: str, version: str) -> None:
        self._families.add(f"nv_inference_{name}", amount, model=model, version=version)
