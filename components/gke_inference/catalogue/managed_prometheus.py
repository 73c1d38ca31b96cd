"""Managed Service for Prometheus in a cluster: who collects metrics, and from where.

See docs.cloud.google.com/stackdriver/docs/managed-prometheus/setup-managed.
"""

from typing import Final

COLLECTOR: Final = "collector"
"""Service account of the collectors."""
STANDARD_NAMESPACE: Final = "gmp-system"


def collectors_namespace(*, autopilot: bool) -> str:
    """Return the namespace of the collectors in a cluster."""
    return "gke-gmp-system" if autopilot else STANDARD_NAMESPACE
