"""Receivers: notification channels for alerts."""

from enum import StrEnum

from gke_inference.settings import Settings
from gke_inference.settings.fields import Channel, EmailAddress


class ReceiverKind(StrEnum):
    """Types of notification channels."""

    EMAIL = "email"
    PAGERDUTY = "pagerduty"
    SLACK = "slack"
    WEBHOOK = "webhook"


SECRET_KINDS = (ReceiverKind.PAGERDUTY, ReceiverKind.SLACK, ReceiverKind.WEBHOOK)
"""Receiver kinds that need a secret."""


def secret_key(receiver: str) -> str:
    """Return the configuration key of a receiver's secret."""
    return f"notify-{receiver}"


class Severity(StrEnum):
    """Severity of an alert."""

    WARNING = "warning"
    CRITICAL = "critical"


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
