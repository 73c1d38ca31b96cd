"""Monitoring: scraping, dashboards, alerts and notification."""

from pydantic import Field

from gke_inference.settings import Settings
from gke_inference.settings.fields import HttpsUrl, Name
from infra.stack.receivers import Receiver


class Traces(Settings):
    """Spans of the gateway and engines, in Cloud Trace."""

    sample_percent: float = Field(gt=0, le=100)
    """Percentage of requests that are traced. A request that asks for tracing is always traced."""


class Monitoring(Settings):
    """Managed Service for Prometheus in every cluster, with alerts and dashboards."""

    alerts: bool = True
    """Whether to create alert policies."""
    cost_limit_usd_per_hour: float | None = Field(default=None, gt=0)
    """Hourly list price of all replicas combined above which an alert fires. No limit by
    default."""
    dashboards: bool = True
    """Whether to create dashboards."""
    notify: dict[Name, Receiver] = Field(default_factory=dict[str, Receiver])
    """Notification channels for alerts, by name. By default, alerts appear only in the console,
    which is not allowed where protection is on."""
    runbooks_url: HttpsUrl | None = None
    """URL where docs/runbooks of this repository is published. Each alert links to its page
    there."""
    traces: Traces | None = None
    """Request tracing. None by default."""
    scrape_seconds: int = Field(default=15, ge=5, le=60)
    """Scrape interval of engine metrics."""
    metrics_adapter: bool = True
    """Whether to install the metrics adapter that autoscalers use to read these metrics. Set to
    false if the cluster already has one."""
