"""Monitoring: scraping, dashboards, alerts and notification."""

from pydantic import Field

from gke_inference.observability.settings import (
    SCRAPE_SECONDS,
    CostLimit,
    ReceiverKind,
    ScrapeSeconds,
    Severity,
)
from gke_inference.settings import Settings
from gke_inference.settings.fields import (
    Channel,
    EmailAddress,
    HttpsUrl,
    Name,
)


def secret_key(receiver: str) -> str:
    """Return the configuration key of a receiver's secret."""
    return f"notify-{receiver}"


class Receiver(Settings):
    """One notification channel.

    Slack's token, PagerDuty's key and a webhook's URL, which includes its token, are secrets. Set
    them with `pulumi config set --secret gke-inference:notify-NAME`.
    """

    kind: ReceiverKind
    """Type of the notification channel."""
    severity: Severity = Severity.WARNING
    """Minimum severity of notifications: `warning` is every alert, `critical` only urgent ones."""
    address: EmailAddress | None = None
    """Email only: the email address."""
    channel: Channel | None = None
    """Slack only: the channel, including the #."""


class Traces(Settings):
    """Spans of the gateway and engines, in Cloud Trace."""

    sample_percent: float = Field(gt=0, le=100)
    """Percentage of requests that are traced. A request that asks for tracing is always traced."""


class Monitoring(Settings):
    """Managed Service for Prometheus in every cluster, with alerts and dashboards."""

    alerts: bool = True
    """Whether to create alert policies."""
    cost_limit_usd_per_hour: CostLimit | None = None
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
    scrape_seconds: ScrapeSeconds = SCRAPE_SECONDS
    """Scrape interval of engine metrics."""
    metrics_adapter: bool = True
    """Whether to install the metrics adapter that autoscalers use to read these metrics. Set to
    false if the cluster already has one."""
