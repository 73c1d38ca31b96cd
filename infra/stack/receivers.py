"""Receivers: who is notified when something is wrong, and how."""

from enum import StrEnum

from infra.stack.base.fields import Channel, EmailAddress, StackModel


class ReceiverKind(StrEnum):
    """Ways to reach people."""

    EMAIL = "email"
    PAGERDUTY = "pagerduty"
    SLACK = "slack"
    WEBHOOK = "webhook"


SECRET_KINDS = (ReceiverKind.PAGERDUTY, ReceiverKind.SLACK, ReceiverKind.WEBHOOK)
"""Kinds of receivers that need a secret."""


def secret_key(receiver: str) -> str:
    """Return the configuration key of a receiver's secret."""
    return f"notify-{receiver}"


class Severity(StrEnum):
    """How bad an alert is."""

    WARNING = "warning"
    CRITICAL = "critical"


class Receiver(StackModel):
    """One way to reach people.

    Slack's token, PagerDuty's key and a webhook's whole URL, whose token it checks, are secrets:
    `pulumi config set --secret gke-inference:notify-NAME`.
    """

    kind: ReceiverKind
    """How it is reached."""
    severity: Severity = Severity.WARNING
    """Least severity it is notified of: `warning` is everything, `critical` what cannot wait."""
    address: EmailAddress | None = None
    """Email only: the address."""
    channel: Channel | None = None
    """Slack only: the channel, with its #."""
