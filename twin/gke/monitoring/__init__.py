"""What Managed Prometheus does in a cluster: a real Prometheus that scrapes what is asked for."""

from twin.gke.monitoring.controller import Monitoring
from twin.gke.monitoring.server import process_name

__all__ = ["Monitoring", "process_name"]
