"""Monitoring: what is scraped, and who is notified."""

from pydantic import Field

from infra.stack.base.fields import HttpsUrl, Name, StackModel
from infra.stack.receivers import Receiver


class Traces(StackModel):
    """Spans of gateway and engines, in Cloud Trace."""

    sample_percent: float = Field(gt=0, le=100)
    """Share of requests that are traced; a request that says so itself is traced in any case."""


class Monitoring(StackModel):
    """Managed Prometheus of every cluster."""

    alerts: bool = True
    """Whether alert policies are made."""
    cost_limit_usd_per_hour: float | None = Field(default=None, gt=0)
    """List price of all replicas together that raises an alert; by default none does."""
    dashboards: bool = True
    """Whether dashboards are made."""
    notify: dict[Name, Receiver] = Field(default_factory=dict[str, Receiver])
    """Who is notified of alerts, by name; by default they are in the console only, which is refused
    where protection is on."""
    runbooks_url: HttpsUrl | None = None
    """Where people read docs/runbooks of this repository; each alert links to its page there."""
    traces: Traces | None = None
    """Traces of requests; none by default."""
    scrape_seconds: int = Field(default=15, ge=5, le=60)
    """Time between two readings of an engine's metrics."""
    metrics_adapter: bool = True
    """Whether each cluster gets the adapter through which autoscalers read these metrics; false
    where the cluster has another one."""
