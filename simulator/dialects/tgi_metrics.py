"""TGI's metrics: counters without `_total`, and no series before its first value."""

from planner.speed.roofline import StepLoad
from simulator.dialects.exporting import Families, OtherMetrics
from simulator.engine.request import FinishReason, Request
from simulator.engine.scheduler import Scheduler
from simulator.engine.settings import Deployment

_DURATIONS = tuple(0.0001 * 1.5**power for power in range(1, 36))
_PERCENT = range(1, 101)
_BATCHES = tuple(float(size) for size in range(1, 1025))


class TgiMetrics(OtherMetrics):
    """The metrics of one TGI server.

    Args:
        deployment: deployment of the server.
        longest_prompt: value of `--max-input-tokens`.
        longest: value of `--max-total-tokens`.
    """

    def __init__(self, deployment: Deployment, *, longest_prompt: int, longest: int) -> None:
        self._longest_prompt, self._longest = longest_prompt, longest
        self._has_served = False
        super().__init__(deployment, Families("tgi", {}))
        tokens = deployment.kv_blocks * deployment.block_size
        self.families.set("tgi_batch_max_total_tokens", tokens)

    def _observe(self, name: str, value: float) -> None:
        buckets: tuple[float, ...] = _DURATIONS
        if name == "tgi_request_input_length":
            buckets = tuple(self._longest_prompt / 100 * part for part in _PERCENT)
        elif name in ("tgi_request_generated_tokens", "tgi_request_max_new_tokens"):
            buckets = tuple(self._longest / 100 * part for part in _PERCENT)
        elif name == "tgi_batch_next_size":
            buckets = _BATCHES
        self.families.make(name, buckets).observe(value)

    def asked(self) -> None:
        """Count a request."""
        self.families.add("tgi_request_count", 1)

    def read(self, prompt: int, most: int) -> None:
        """Record the tokens of a valid prompt and the maximum of its response."""
        self._observe("tgi_request_input_length", prompt)
        self._observe("tgi_request_max_new_tokens", most)

    def refused(self, kind: str) -> None:
        """Count a rejected request."""
        self.families.add("tgi_request_failure", 1, err=kind)

    def on_state(self, scheduler: Scheduler) -> None:
        """Update the gauges after the first request."""
        self._has_served = self._has_served or bool(scheduler.running or scheduler.waiting)
        if not self._has_served:
            return
        running = scheduler.running
        held = sum(len(each.prompt) + each.max_tokens for each in running)
        self.families.set("tgi_queue_size", len(scheduler.waiting))
        self.families.set("tgi_batch_current_size", len(running))
        self.families.set("tgi_batch_current_max_tokens", held)

    def on_abort(self, request: Request) -> None:
        """Count a request that failed, or whose client disconnected."""
        err = "dropped" if request.finished is FinishReason.ABORT else "generation"
        self.families.add("tgi_request_failure", 1, err=err)

    def on_step(self, load: StepLoad) -> None:
        """Count the model calls; a batch is a prefill or a decode."""
        method = "prefill" if load.prefill_tokens else "decode"
        self.families.add("tgi_batch_inference_count", 1, method=method)
        self.families.add("tgi_batch_inference_success", 1, method=method)
        if load.prefill_tokens:
            self._observe("tgi_batch_next_size", max(1, load.decode_tokens))
        self._has_served = True

    def on_end(self, request: Request, now: float) -> None:
        """Record a finished request."""
        begun = request.first_scheduled or request.arrival
        self.families.add("tgi_request_success", 1)
        for name, seconds in (
            ("duration", now - request.arrival),
            ("validation_duration", 0.0),
            ("queue_duration", begun - request.arrival),
            ("inference_duration", now - begun),
            ("mean_time_per_token_duration", (now - begun) / max(1, request.generated)),
        ):
            self._observe(f"tgi_request_{name}", seconds)
        self._observe("tgi_request_generated_tokens", request.generated)
