"""SGLang's metrics, from its scheduler and its tokenizer manager.

Gauges are less current than vLLM's: the scheduler updates them at each prefill, at every fortieth
decode step (`--decode-log-interval`), and when it becomes idle
(`srt/managers/scheduler_components/metrics_reporter.py` of 0.5.23). Pickers and autoscalers see the
same outdated values.
"""

from gke_inference.sizing.memory import kv_token_bytes
from planner.speed.roofline import StepLoad
from simulator.dialects.exporting import Families, OtherMetrics
from simulator.engine.request import Request
from simulator.engine.scheduler import Scheduler
from simulator.engine.settings import Deployment

_ALWAYS_ZERO = (
    "num_grammar_queue_reqs",
    "swa_token_usage",
    "mamba_usage",
    "kv_evictable_tokens",
    "swa_available_tokens",
    "swa_evictable_tokens",
    "swa_used_tokens",
    "mamba_available_tokens",
    "mamba_evictable_tokens",
    "mamba_used_tokens",
    "spec_accept_length",
    "spec_accept_rate",
    "spec_cap_length",
    "spec_block_accept_length",
    "spec_num_steps",
    "spec_num_draft_tokens",
    "num_retracted_reqs",
    "num_paused_reqs",
    "num_prefill_bootstrap_queue_reqs",
    "num_prefill_inflight_queue_reqs",
    "num_decode_prealloc_queue_reqs",
    "num_decode_transfer_queue_reqs",
    "num_decode_host_receive_queue_reqs",
    "pending_prealloc_token_usage",
    "utilization",
    "fwd_occupancy",
    "new_token_ratio",
    "is_cuda_graph",
    "num_unique_running_routing_keys",
)
"""Gauges of features that are missing or not simulated; always 0."""
_GIB = 2**30


class SglangMetrics(OtherMetrics):
    """The metrics of one SGLang server.

    Args:
        deployment: deployment of the server.
        page_size: tokens per cache page, from its flag.
        interval: number of decode steps between gauge updates.
    """

    def __init__(self, deployment: Deployment, *, page_size: int, interval: int) -> None:
        given = {
            "model_name": deployment.served_names[0],
            "engine_type": "unified",
            "tp_rank": "0",
            "pp_rank": "0",
            "moe_ep_rank": "0",
        }
        self._interval = interval
        self._decodes = 0
        self._steps = 0
        self._rates = 0.0
        self._hit_rate = 0.0
        self._has_lora = bool(deployment.flags.enable_lora)
        self._slots: int = deployment.flags.max_loras or 1
        self._is_due = True
        super().__init__(deployment, Families("sglang", given))
        self._constants(deployment, page_size)

    def _constants(self, deployment: Deployment, page_size: int) -> None:
        tokens = deployment.kv_blocks * deployment.block_size
        kv_bytes = tokens * kv_token_bytes(deployment.shape, deployment.kv_bits)
        for name, value in (
            ("max_total_num_tokens", tokens),
            ("weight_memory_usage_gb", deployment.shape.weights_gb * 1e9 / _GIB),
            ("kv_cache_memory_usage_gb", kv_bytes / _GIB),
            ("page_size", page_size),
            ("num_pages", tokens // page_size),
            ("context_len", deployment.max_model_len),
        ):
            self.families.set(f"sglang:{name}", value)
        for name in _ALWAYS_ZERO:
            self.families.set(f"sglang:{name}", 0)

    def on_state(self, scheduler: Scheduler) -> None:
        """Update the gauges if they are due."""
        if not self._is_due and (scheduler.running or scheduler.waiting):
            return
        self._is_due = False
        cache = scheduler.cache
        tokens = cache.blocks * cache.block_size
        running = len(scheduler.running)
        for name, value in (
            ("num_running_reqs", running),
            ("num_queue_reqs", len(scheduler.waiting)),
            ("cache_hit_rate", self._hit_rate),
            ("decode_sum_seq_lens", sum(each.length for each in scheduler.running)),
            ("token_usage", cache.usage),
            ("full_token_usage", cache.usage),
            ("num_used_tokens", cache.held_tokens),
            ("kv_used_tokens", cache.held_tokens),
            ("kv_available_tokens", tokens - cache.held_tokens),
        ):
            self.families.set(f"sglang:{name}", value)
        rate = self._rates / self._steps if running and self._steps else 0.0
        self.families.set("sglang:gen_throughput", rate)
        self._rates, self._steps = 0.0, 0
        if self._has_lora:
            used = min(self._slots, len(set(scheduler.adapters_running)))
            self.families.set("sglang:lora_pool_slots_used", used)
            self.families.set("sglang:lora_pool_slots_total", self._slots)
            self.families.set("sglang:lora_pool_utilization", used / self._slots)

    def on_step(self, load: StepLoad) -> None:
        """Count tokens, and update the gauges at a prefill and every `interval` decode steps."""
        if load.prefill_tokens:
            self.families.add(
                "sglang:realtime_tokens_total", load.prefill_tokens, mode="prefill_compute"
            )
        if load.decode_tokens:
            self.families.add("sglang:realtime_tokens_total", load.decode_tokens, mode="decode")
            self._decodes += 1
            self._steps += 1
        if load.prefill_tokens or (load.decode_tokens and self._decodes % self._interval == 0):
            self._is_due = True
            self.before_render()

    def on_first_token(self, request: Request, seconds: float) -> None:
        """Record the time to the first token, and the cached share of its prompt."""
        self._hit_rate = request.cached_tokens / max(1, len(request.prompt))
        self.families.observe(
            "sglang:time_to_first_token_seconds", seconds, is_streaming=_is_streamed(request)
        )
        scheduled = request.first_scheduled or request.arrival
        self.families.observe("sglang:queue_time_seconds", scheduled - request.arrival)

    def on_tokens(self, seconds: float, count: int) -> None:
        """Record the time since the previous token, once per request."""
        self.families.observe("sglang:inter_token_latency_seconds", seconds, count)
        self._rates += count / seconds if seconds > 0 else 0.0

    def on_end(self, request: Request, now: float) -> None:
        """Record a finished request; like SGLang, count prompt tokens at its end."""
        book, prompt = self.families, len(request.prompt)
        streamed = _is_streamed(request)
        book.add("sglang:prompt_tokens_total", prompt, is_streaming=streamed)
        book.add("sglang:generation_tokens_total", request.generated, is_streaming=streamed)
        if request.cached_tokens:
            book.add("sglang:cached_tokens_total", request.cached_tokens, cache_source="device")
        book.add("sglang:num_requests_total", 1, is_streaming=streamed)
        book.observe(
            "sglang:e2e_request_latency_seconds", now - request.arrival, is_streaming=streamed
        )
        book.observe("sglang:prompt_tokens_histogram", prompt)
        book.observe("sglang:uncached_prompt_tokens_histogram", prompt - request.cached_tokens)
        book.observe("sglang:generation_tokens_histogram", request.generated)

    def on_abort(self, request: Request) -> None:
        """Record an aborted request."""
        self.families.add("sglang:num_aborted_requests_total", 1)


def _is_streamed(request: Request) -> str:
    return "true" if request.streamed else "false"
