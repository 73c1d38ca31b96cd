"""Settings of monitoring and budgets, which stacks and components share."""

from typing import Annotated, Final

from pydantic import Field

from gke_inference.settings import Word

CostLimit = Annotated[float, Field(gt=0)]
"""Hourly list price of all replicas combined, in US dollars."""
ScrapeSeconds = Annotated[int, Field(ge=5, le=60)]
"""Seconds between scrapes of engine metrics."""
SCRAPE_SECONDS: Final = 15
BudgetUsd = Annotated[int, Field(ge=1, le=1_000_000_000)]
"""Budget of a calendar month in whole US dollars, after credits."""
Percent = Annotated[int, Field(ge=1, le=1000)]
"""Percentage of a budget at which people are notified."""
ALERT_PERCENT: Final = (50, 90, 100)
FORECAST_PERCENT: Final = (100,)
LatencyMs = Annotated[int, Field(ge=1, le=3_600_000)]
"""Latency in milliseconds."""
QueueLimit = Annotated[int, Field(ge=1, le=1_000_000)]
"""Waiting requests per replica."""
QUEUE_LIMIT: Final = 20
MAX_CHANNELS: Final = 5
"""Maximum notification channels of one budget (Cloud Billing: budgets)."""


class ReceiverKind(Word):
    """Types of notification channels."""

    EMAIL = "email"
    PAGERDUTY = "pagerduty"
    SLACK = "slack"
    WEBHOOK = "webhook"


SECRET_KINDS: Final = (ReceiverKind.PAGERDUTY, ReceiverKind.SLACK, ReceiverKind.WEBHOOK)
"""Receiver kinds that need a secret."""


class Severity(Word):
    """Severity of an alert, in ascending order."""

    WARNING = "warning"
    CRITICAL = "critical"
