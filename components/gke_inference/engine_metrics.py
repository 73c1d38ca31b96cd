"""Names of the engine metrics that routing, scaling and alerts use, once.

vLLM 0.32 on GPU and TPU exports all of them; `vllm:gpu_cache_usage_perc` of older guides is gone.
"""

CACHE_INFO = "vllm:cache_config_info"
KV_CACHE_USE = "vllm:kv_cache_usage_perc"
LORA_INFO = "vllm:lora_requests_info"
PREEMPTIONS = "vllm:num_preemptions_total"
QUEUE_LENGTH = "vllm:num_requests_waiting"
RUNNING = "vllm:num_requests_running"
TIME_TO_FIRST_TOKEN = "vllm:time_to_first_token_seconds"  # noqa: S105 (a histogram, no secret)

UNPLACED_REPLICAS = "gke_inference:unplaced_replicas"
"""Recorded here: replicas of a Deployment that no node could be found for."""

SCRAPED = (
    CACHE_INFO,
    KV_CACHE_USE,
    LORA_INFO,
    PREEMPTIONS,
    QUEUE_LENGTH,
    RUNNING,
    "vllm:e2e_request_latency_seconds_(bucket|count|sum)",
    "vllm:generation_tokens_total",
    "vllm:inter_token_latency_seconds_(bucket|count|sum)",
    "vllm:prefix_cache_hits_total",
    "vllm:prefix_cache_queries_total",
    "vllm:prompt_tokens_total",
    "vllm:request_success_total",
    "vllm:request_time_per_output_token_seconds_(bucket|count|sum)",
    f"{TIME_TO_FIRST_TOKEN}_(bucket|count|sum)",
)
"""Patterns of what is stored. Managed Prometheus bills every sample, an engine exports hundreds."""


def cloud_monitoring_name(metric: str) -> str:
    """Returns a gauge's name as the HPA's metrics API spells it (`|` in place of `/`)."""
    return f"prometheus.googleapis.com|{metric}|gauge"
