"""Names of vLLM metrics for dashboards and alerts, and of recorded series.

vLLM 0.32 on GPU and TPU exports all of them; `vllm:gpu_cache_usage_perc` of older guides no longer
exists.
"""

from .engines import engine

_VLLM = engine("vllm").metrics
CACHE_INFO = str(_VLLM.cache_info)
LORA_INFO = str(_VLLM.adapters)
RUNNING = str(_VLLM.running)

UNPLACED_REPLICAS = "gke_inference:unplaced_replicas"
"""Recorded series: replicas of a Deployment that no node was found for."""

SCHEDULED_REPLICAS = "gke_inference:scheduled_replicas"
"""Recorded series: minimum of replicas of a window, 0 outside of all windows."""

DEMANDED_REPLICAS = "gke_inference:demanded_replicas"
"""Recorded series: 1 while a model has or recently had requests, and else 0."""

SCRAPED = _VLLM.stored()
"""Patterns of the stored vLLM metrics."""


def cloud_monitoring_name(metric: str) -> str:
    """Return a gauge's name in the HPA's metrics API (`|` in place of `/`)."""
    return f"prometheus.googleapis.com|{metric}|gauge"
