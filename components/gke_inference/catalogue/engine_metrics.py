"""Names of recorded series, and of metrics in the HPA's metrics API."""

UNPLACED_REPLICAS = "gke_inference:unplaced_replicas"
"""Recorded series: replicas of a Deployment that no node was found for."""

SCHEDULED_REPLICAS = "gke_inference:scheduled_replicas"
"""Recorded series: minimum of replicas of a window, 0 outside of all windows."""


DEMANDED_REPLICAS = "gke_inference:demanded_replicas"
"""Recorded series: 1 while a model has or recently had requests, and else 0."""


def cloud_monitoring_name(metric: str) -> str:
    """Return a gauge's name in the HPA's metrics API (`|` in place of `/`)."""
    return f"prometheus.googleapis.com|{metric}|gauge"
