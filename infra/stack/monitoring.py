"""Monitoring: what is scraped, and who is told."""

from pydantic import Field

from infra.stack.fields import StackModel


class Monitoring(StackModel):
    """Managed Prometheus of every cluster."""

    scrape_seconds: int = Field(default=15, ge=5, le=60)
    """Time between two readings of an engine's metrics."""
    metrics_adapter: bool = True
    """Whether each cluster gets the adapter through which autoscalers read these metrics; false
    where the cluster has another one."""
