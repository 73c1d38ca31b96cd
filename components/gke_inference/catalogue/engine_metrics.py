"""Names of vLLM's metrics, as dashboards and alerts use them, and of those recorded here.

vLLM 0.32 on GPU and TPU exports all of them; `vllm:gpu_cache_usage_perc` of older guides is gone.
"""

from .engines import engine

_VLLM = engine("vllm").metrics
CACHE_INFO = str(_VLLM.cache_info)
KV_CACHE_USE = str(_VLLM.kv_cache)
LORA_INFO = str(_VLLM.adapters)
PREEMPTIONS = "vllm:num_preemptions_total"
QUEUE_LENGTH = _VLLM.queue
RUNNING = _VLLM.running
TIME_TO_FIRST_TOKEN = "vllm:time_to_first_token_seconds"  # noqa: S105 (a histogram, no secret)

UNPLACED_REPLICAS = "gke_inference:unplaced_replicas"
"""Recorded here: replicas of a Deployment that no node could be found for."""

SCRAPED = _VLLM.stored
"""Patterns of what is stored of vLLM."""


def cloud_monitoring_name(metric: str) -> str:
    """Returns a gauge's name as the HPA's metrics API spells it (`|` in place of `/`)."""
    return f"prometheus.googleapis.com|{metric}|gauge"
