"""vLLM's metrics with their names, types, labels and buckets, from the simulated engine.

`data/metrics.json` lists the metrics of a real server; it must contain every name used here.
"""

import json
import os
import resource
import time
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

from gke_inference.sizing.memory import kv_token_bytes
from planner.speed.roofline import CostModel, StepLoad
from simulator.engine import DATA
from simulator.engine.exposition import Metric
from simulator.engine.kv_metrics import KvMetrics, TierMetrics
from simulator.engine.kv_tiers import has_tiers
from simulator.engine.request import FinishReason, Request
from simulator.engine.scheduler import Scheduler
from simulator.engine.settings import Deployment
from simulator.engine.spec_metrics import SpecMetrics

_LATENCY = (
    0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680,
)  # fmt: skip
_FIRST_TOKEN = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40,
    80, 160, 640, 2560,
)  # fmt: skip
_BETWEEN_TOKENS = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80,
)  # fmt: skip
_STEP_TOKENS = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
_PREEMPTIONS = (1, 2, 3, 4, 5, 10, 20)
_N = (1, 2, 5, 10, 20)
_DECLARED = (
    "http_request_duration_highr_seconds",
    "http_request_duration_seconds",
    "http_request_size_bytes",
    "http_response_size_bytes",
    "process_max_fds",
    "process_open_fds",
    "process_virtual_memory_bytes",
    "python_gc_collections_total",
    "python_gc_objects_collected_total",
    "python_gc_objects_uncollectable_total",
    "python_info",
)
"""Families of the process and its web server: declared, without samples."""
_TIERS = ("device", "host", "disk", "p2p", "external_unspecified")
_ENGINE = "0"


@cache
def catalogue() -> Mapping[str, Any]:
    """Return the metrics of a real server: name to type, labels and help."""
    return json.loads((DATA / "metrics.json").read_text())["metrics"]


def token_buckets(most: int) -> tuple[float, ...]:
    """Return 1, 2, 5, 10, … up to the longest sequence."""
    return tuple(m * 10**e for e in range(12) for m in (1, 2, 5) if m * 10**e <= most)


class EngineMetrics:
    """The metrics of one engine."""

    def __init__(self, deployment: Deployment) -> None:
        self._metrics: dict[str, Metric] = {}
        self._deployment = deployment
        self._model = deployment.served_names[0]
        self.before_render: Callable[[], None] = lambda: None
        """Called before the page is rendered, to set gauges only then instead of at every step."""
        tokens = token_buckets(deployment.max_model_len)
        self._scheduler_state()
        self._counters()
        self._histograms(tokens)
        self._info()
        self._process()
        slots: int = deployment.flags.max_loras or 1
        self._adapter_slots = str(slots)
        self._has_answered = False
        self._kv: KvMetrics | None = None
        self._tiers: TierMetrics | None = None
        if has_tiers(deployment.flags):
            self._tiers = TierMetrics(self._metrics, self._series())
        elif deployment.flags.kv_transfer_config:
            self._kv = KvMetrics(self._metrics, self._series())
        self._spec: SpecMetrics | None = None
        if deployment.speculation is not None:
            self._spec = SpecMetrics(self._metrics, self._series(), deployment.speculation)

    def _make(self, name: str, buckets: tuple[float, ...] = (), *series: str) -> Metric:
        entry = catalogue()[name]
        labels = tuple(label for label in entry["labels"] if label != "le")
        # the real server's client library writes a creation time for all series but the process's
        # own
        dated = entry["type"] != "gauge" and name.startswith(("vllm:", "http_"))
        metric = Metric(
            name, entry["type"], entry["help"], labels, buckets, time.time() if dated else None
        )
        self._metrics[name] = metric
        if labels == ("engine", "model_name"):
            metric.touch(_ENGINE, self._model)
        for value in series:
            metric.touch(*self._values(metric, value))
        return metric

    def _values(self, metric: Metric, value: str) -> tuple[str, ...]:
        """Return the label values of a series with one label besides engine and model."""
        given = {"engine": _ENGINE, "model_name": self._model}
        return tuple(given.get(label, value) for label in metric.labels)

    def _scheduler_state(self) -> None:
        self.running = self._make("vllm:num_requests_running")
        self.waiting = self._make("vllm:num_requests_waiting")
        self.waiting_by_reason = self._make(
            "vllm:num_requests_waiting_by_reason", (), "capacity", "deferred"
        )
        self.kv_usage = self._make("vllm:kv_cache_usage_perc")
        self.lora = self._make("vllm:lora_requests_info")
        sleep = self._make(
            "vllm:engine_sleep_state", (), "awake", "weights_offloaded", "discard_all"
        )
        sleep.set(1, *self._values(sleep, "awake"))

    def _counters(self) -> None:
        self.prompt_tokens = self._make("vllm:prompt_tokens_total")
        self.prompt_by_source = self._make(
            "vllm:prompt_tokens_by_source_total",
            (),
            "local_compute",
            "local_cache_hit",
            "external_kv_transfer",
        )
        self.prompt_cached = self._make("vllm:prompt_tokens_cached_total")
        self.generated = self._make("vllm:generation_tokens_total")
        self.success = self._make(
            "vllm:request_success_total", (), "stop", "length", "abort", "error", "repetition"
        )
        self.preemptions = self._make("vllm:num_preemptions_total")
        self.prefix_queries = self._make("vllm:prefix_cache_queries_total")
        self.prefix_hits = self._make("vllm:prefix_cache_hits_total")
        self.external_queries = self._make("vllm:external_prefix_cache_queries_total")
        self.external_hits = self._make("vllm:external_prefix_cache_hits_total")
        self._make("vllm:mm_cache_queries_total")
        self._make("vllm:mm_cache_hits_total")
        self.cached_by_source = self._make("vllm:prompt_tokens_cached_by_source_total", (), *_TIERS)
        self.rejections = self._make("vllm:admission_rejections_total")
        for reason in ("max_num_queued_reqs", "max_num_queued_tokens"):
            self.rejections.touch(self._model, reason)
        self.flops = self._make("vllm:estimated_flops_per_gpu_total")
        self.read_bytes = self._make("vllm:estimated_read_bytes_per_gpu_total")
        self.write_bytes = self._make("vllm:estimated_write_bytes_per_gpu_total")

    def _histograms(self, tokens: tuple[float, ...]) -> None:
        self.request_prompt = self._make("vllm:request_prompt_tokens", tokens)
        self.request_generated = self._make("vllm:request_generation_tokens", tokens)
        self.step_tokens = self._make("vllm:iteration_tokens_total", _STEP_TOKENS)
        self.request_max_generated = self._make("vllm:request_max_num_generation_tokens", tokens)
        self.params_n = self._make("vllm:request_params_n", _N)
        self.params_max_tokens = self._make("vllm:request_params_max_tokens", tokens)
        self.first_token = self._make("vllm:time_to_first_token_seconds", _FIRST_TOKEN)
        self.between_tokens = self._make("vllm:inter_token_latency_seconds", _BETWEEN_TOKENS)
        self.per_token = self._make("vllm:request_time_per_output_token_seconds", _BETWEEN_TOKENS)
        self.end_to_end = self._make("vllm:e2e_request_latency_seconds", _LATENCY)
        self.queue_time = self._make("vllm:request_queue_time_seconds", _LATENCY)
        self.inference_time = self._make("vllm:request_inference_time_seconds", _LATENCY)
        self.prefill_time = self._make("vllm:request_prefill_time_seconds", _LATENCY)
        self.decode_time = self._make("vllm:request_decode_time_seconds", _LATENCY)
        self.request_preemptions = self._make("vllm:request_num_preemptions", _PREEMPTIONS)
        self.computed_tokens = self._make("vllm:request_prefill_kv_computed_tokens", tokens)
        self._make("vllm:sleep_mode_operation_duration_seconds", _LATENCY)
        self._make("vllm:sleep_mode_operations_in_flight")

    def _info(self) -> None:
        deployment, flags = self._deployment, self._deployment.flags
        cache = self._make("vllm:cache_config_info")
        known = {
            "_block_size_resolved": "True",
            "block_size": deployment.block_size,
            "cache_dtype": flags.kv_cache_dtype or "auto",
            "enable_prefix_caching": flags.enable_prefix_caching is not False,
            "engine": _ENGINE,
            "gpu_memory_utilization": flags.gpu_memory_utilization or 0.92,
            "hash_block_size": deployment.block_size,
            "kv_cache_size_tokens": deployment.kv_blocks * deployment.block_size,
            "num_gpu_blocks": deployment.kv_blocks,
            "prefix_caching_hash_algo": flags.prefix_caching_hash_algo or "sha256",
            "user_specified_block_size": flags.block_size is not None,
        }
        cache.set(1, *(str(known.get(label)) for label in cache.labels))

    def _process(self) -> None:
        self._make("process_start_time_seconds").set(time.time())
        self._cpu = self._make("process_cpu_seconds_total")
        self._memory = self._make("process_resident_memory_bytes")
        self.http_requests = self._make("http_requests_total")
        for name in _DECLARED:
            self._make(name)

    def _series(self) -> tuple[str, str]:
        return (_ENGINE, self._model)

    def state(self, scheduler: Scheduler, max_adapters: int | None) -> None:
        """Record the running and waiting requests."""
        series = self._series()
        self.running.set(len(scheduler.running), *series)
        waiting = len(scheduler.waiting)
        self.waiting.set(waiting, *series)
        adapters = set(scheduler.adapters_running)
        full = len(adapters) >= scheduler.max_adapters
        deferred = (
            sum(r.adapter is not None and r.adapter not in adapters for r in scheduler.waiting)
            if full
            else 0
        )
        deferred += sum(request.loading for request in scheduler.waiting)
        for reason, count in (("capacity", waiting - deferred), ("deferred", deferred)):
            self.waiting_by_reason.set(count, *self._values(self.waiting_by_reason, reason))
        self.kv_usage.set(scheduler.cache.usage, *series)
        self.prefix_queries.set(scheduler.cache.stats.queries, *series)
        self.prefix_hits.set(scheduler.cache.stats.hits, *series)
        device = self._values(self.cached_by_source, "device")
        self.cached_by_source.set(scheduler.cache.stats.hits, *device)
        if self._tiers is not None and scheduler.tiers is not None:
            self._tiers.state(scheduler.tiers)
        if max_adapters is not None and self._has_answered:
            # a series for each combination ever seen, as in vLLM, which writes the first with the
            # first token of any request; readers use the newest
            names = [",".join(scheduler.adapters_running), ",".join(scheduler.adapters_waiting)]
            self.lora.set(time.time(), str(max_adapters), *names)

    def step(self, load: StepLoad, cost: CostModel, *, preempted: int = 0) -> None:
        """Record a finished step."""
        series = self._series()
        tokens = load.prefill_tokens + load.decode_tokens
        self.step_tokens.observe(tokens, *series)
        if preempted:
            self.preemptions.add(preempted, *series)
        self.flops.add(cost.step_flops(load) / cost.chips, *series)
        self.read_bytes.add(cost.step_read_bytes(load) / cost.chips, *series)
        written = cost.step_written_tokens(load) * kv_token_bytes(cost.model, cost.kv_bits)
        self.write_bytes.add(written / cost.chips, *series)
        if self._spec is not None and load.decode_tokens:
            self._spec.step(load.decode_tokens)

    def answered(self, requests: Iterable[Request], now: float) -> None:
        """Record another token of each request, or its vector."""
        self._has_answered = True
        latencies: dict[float, int] = {}
        generated = 0
        for request in requests:
            if request.first_token is None:
                self._prefilled(request, now)
            elif request.last_token is not None:
                latency = now - request.last_token
                latencies[latency] = latencies.get(latency, 0) + 1
            request.last_token = now
            generated += not request.pooling
        for latency, count in latencies.items():
            self.between_tokens.observe(latency, *self._series(), times=count)
        if generated:
            self.generated.add(generated, *self._series())

    def decoded(self, seconds: float, count: int) -> None:
        """Record another token of some requests, with the same time since their previous one."""
        series = self._series()
        self.between_tokens.observe(seconds, *series, times=count)
        self.generated.add(count, *series)

    def _prefilled(self, request: Request, now: float) -> None:
        series = self._series()
        request.first_token = now
        if request.adapter is not None:  # however short it is, a reader learns that it was there
            self.lora.set(time.time(), self._adapter_slots, request.adapter, "")
        self.first_token.observe(now - request.arrival, *series)
        computed = len(request.prompt) - request.cached_tokens - request.loaded_tokens
        self.prompt_tokens.add(len(request.prompt), *series)
        for source, count in (
            ("local_compute", computed),
            ("local_cache_hit", request.cached_tokens),
            ("external_kv_transfer", request.loaded_tokens),
        ):
            self.prompt_by_source.add(count, *self._values(self.prompt_by_source, source))
        self.prompt_cached.add(request.cached_tokens + request.loaded_tokens, *series)
        self.computed_tokens.observe(computed, *series)
        queries = request.loaded_tokens
        if self._tiers is not None:  # all that the accelerator's memory lacks is looked up
            queries = len(request.prompt) - request.cached_tokens
            if request.load is not None and request.loaded_tokens:
                source = self._values(self.cached_by_source, request.load.source)
                self.cached_by_source.add(request.loaded_tokens, *source)
        self.external_queries.add(queries, *series)
        self.external_hits.add(request.loaded_tokens, *series)

    def aborted(self, request: Request, now: float) -> None:
        """Record nothing but the tokens so far: vLLM forgets a request whose client has gone.

        Its state is dropped without statistics (v1/engine/output_processor.py, `abort_requests`),
        so that only the counters of tokens have it.
        """

    def finished(self, request: Request, now: float) -> None:
        """Record the end of a request."""
        series = self._series()
        reason = request.finished or FinishReason.ABORT
        self.success.add(1, *self._values(self.success, reason.value))
        self.end_to_end.observe(now - request.arrival, *series)
        self.request_prompt.observe(len(request.prompt), *series)
        self.request_generated.observe(request.generated, *series)
        self.request_max_generated.observe(request.generated, *series)
        self.params_n.observe(1, *series)
        self.params_max_tokens.observe(request.max_tokens, *series)
        self.request_preemptions.observe(request.preemptions, *series)
        if request.first_scheduled is None or request.first_token is None:
            return
        self.queue_time.observe(request.first_scheduled - request.arrival, *series)
        self.inference_time.observe(now - request.first_scheduled, *series)
        self.prefill_time.observe(request.first_token - request.first_scheduled, *series)
        self.decode_time.observe(now - request.first_token, *series)
        if request.generated > 1:
            mean = (now - request.first_token) / (request.generated - 1)
            self.per_token.observe(mean, *series)

    def reject(self, reason: str) -> None:
        """Record a request rejected by a queue limit."""
        self.rejections.add(1, self._model, reason)

    def kv_read(self, seconds: float, size: int) -> None:
        """Record a prompt whose KV came from another engine."""
        if self._kv is not None:
            self._kv.read(seconds, size)

    def kv_failed(self) -> None:
        """Record a prompt whose KV could not be read."""
        if self._kv is not None:
            self._kv.failed()

    def kv_expired(self, count: int) -> None:
        """Record prompts that were not read in time."""
        if self._kv is not None:
            self._kv.expired(count)

    def render(self) -> str:
        """Return all metrics in the text format."""
        self.before_render()
        usage = resource.getrusage(resource.RUSAGE_SELF)
        self._cpu.values[()] = usage.ru_utime + usage.ru_stime
        self._cpu.add(0.0)
        with open("/proc/self/statm") as file:
            pages = int(file.read().split()[1])
        self._memory.set(pages * os.sysconf("SC_PAGE_SIZE"))
        return "".join(metric.render() for metric in self._metrics.values())
