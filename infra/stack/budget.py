"""Budget: what a month may cost, and who is notified on the way there."""

from enum import StrEnum

from pydantic import Field

from gke_inference.observability.settings import (
    ALERT_PERCENT,
    FORECAST_PERCENT,
    MAX_CHANNELS,
    BudgetUsd,
    Percent,
)
from gke_inference.settings import Settings
from gke_inference.settings.fields import (
    BillingAccount,
    Name,
    TopicName,
)


class Covers(StrEnum):
    """What counts against a budget."""

    STACK = "stack"
    PROJECT = "project"


class Budget(Settings):
    """Alerts on the bill of a calendar month, which lags by hours. They stop no spending."""

    billing_account: BillingAccount
    """Billing account that pays, in US dollars."""
    monthly_usd: BudgetUsd
    """Monthly budget in whole US dollars, after credits. Not below the minimum cost of what it
    covers."""
    alert_percent: tuple[Percent, ...] = ALERT_PERCENT
    """Percentages of the budget at which notifications are sent."""
    billing_admins: bool = True
    """Whether to also notify administrators and users of the billing account."""
    covers: Covers = Covers.STACK
    """`stack` counts resources with this stack's `env` label: clusters and their VMs, disks and
    buckets. `project` counts the whole project, including load balancers, networks and metrics,
    which carry no label."""
    discount_percent: int = Field(default=0, ge=0, le=90)
    """Discount on list prices, from commitments or agreements, for the check of `monthly_usd`."""
    forecast_percent: tuple[Percent, ...] = FORECAST_PERCENT
    """Percentages at which notifications are sent as soon as the month is forecast to reach
    them."""
    notify: tuple[Name, ...] = Field(default=(), max_length=MAX_CHANNELS)
    """Receivers in `monitoring.notify` to notify. Only receivers of kind `email` are supported."""
    topic: TopicName | None = None
    """Pub/Sub topic that receives the budget status, for programs."""
