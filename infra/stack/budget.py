"""Budget: what a month may cost, and who is notified on the way there."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from infra.stack.base.fields import BillingAccount, Name, StackModel, TopicName

Percent = Annotated[int, Field(ge=1, le=1000)]


class Covers(StrEnum):
    """What counts against a budget."""

    STACK = "stack"
    PROJECT = "project"


class Budget(StackModel):
    """Alerts on the bill of a calendar month. They stop nothing, and bills are hours late."""

    billing_account: BillingAccount
    """Billing account that pays, in US dollars."""
    monthly_usd: int = Field(ge=1, le=1_000_000_000)
    """What a month may cost, in whole US dollars after credits; not below the minimum
    of what counts against it."""
    alert_percent: tuple[Percent, ...] = (50, 90, 100)
    """Shares of it at which people are notified."""
    billing_admins: bool = True
    """Whether administrators and users of the billing account are notified, too."""
    covers: Covers = Covers.STACK
    """stack counts what carries the label env of this stack: clusters with their machines, disks
    and buckets. project counts the whole project, with load balancers, networks and metrics, which
    carry no label."""
    discount_percent: int = Field(default=0, ge=0, le=90)
    """What is paid below list prices, by commitments or agreement, when monthly_usd is checked."""
    forecast_percent: tuple[Percent, ...] = (100,)
    """Shares at which people are notified as soon as the month is forecast to reach them."""
    notify: tuple[Name, ...] = Field(default=(), max_length=5)
    """Receivers of `monitoring.notify` that are notified; only those of the kind email can be."""
    topic: TopicName | None = None
    """Pub/Sub topic that programs read the state of the budget from."""
