"""Settings of a pipeline, a JSON object: the pipeline's option `--settings`."""

import re
from dataclasses import dataclass
from typing import Final

from workloads.common.settings import SettingsError, check_bounds, check_endpoint, check_range, read

__all__ = ["WINDOW_COUNT", "WINDOW_FEATURES", "WINDOW_SUM", "Settings", "SettingsError"]

WINDOW_COUNT: Final = "window_count"
"""Feature: events of the key in the window before this event."""
WINDOW_SUM: Final = "window_sum"
"""Feature: sum of their values."""
WINDOW_FEATURES: Final = (WINDOW_COUNT, WINDOW_SUM)
_SECRET: Final = re.compile(r"projects/[^/]+/secrets/[^/]+/versions/[^/]+")


@dataclass(frozen=True)
class Settings:
    """The events, the state that is kept of each key, the model, and the totals."""

    pipeline: str
    """Name of the pipeline, first part of the ids of its scores."""
    endpoint: str
    """URL of the gateway, without a path."""
    model: str
    """Predictive model that scores the events."""
    features: tuple[str, ...]
    """Names of the model's features, in its order: numbers of an event, or `WINDOW_FEATURES`."""
    key: str
    """Field of an event whose value has a state of its own, such as `card`."""
    group: str
    """Field of an event that totals are kept by, such as `merchant`."""
    value: str
    """Number of an event that is summed, such as `amount_usd`."""
    input: str
    """Tensor of the model that has the features, with the shape [events, features]."""
    output: str
    """Tensor of the model that has the scores, with the shape [events, 1]."""
    threshold: float
    """Score from which on an event is flagged."""
    window_seconds: int
    """Length of the window that `WINDOW_FEATURES` look back."""
    lateness_seconds: int
    """How late an event may be and still get a score with exact features."""
    totals_seconds: int
    """Length of the windows of totals."""
    batch: int
    """Most events in a request."""
    retries: int
    """Attempts after the first at a request that the model may be able to answer later."""
    subscription: str = ""
    """Pub/Sub subscription of the events, `projects/P/subscriptions/S`."""
    scores: str = ""
    """Topic of the scores, `projects/P/topics/T`."""
    totals: str = ""
    """Topic of the totals."""
    dead_letters: str = ""
    """Topic of the events without a score."""
    timeout_seconds: float = 30.0
    """Time to wait for an answer."""
    key_secret: str = ""
    """Secret Manager version, `projects/P/secrets/S/versions/V`, with the key of a team. Empty
    where requests need none."""

    @classmethod
    def of(cls, text: str) -> "Settings":
        """Return the settings in a JSON text.

        Raises:
            SettingsError: A field is missing, unknown, of another kind or out of range.
        """
        found = read(cls, text)
        check_endpoint(found.endpoint)
        check_bounds("pipelines", found)
        check_range("timeout_seconds", found.timeout_seconds, 1, 600)
        if len(set(found.features)) != len(found.features):
            raise SettingsError(f"features: must be different, got {', '.join(found.features)}")
        if found.value in WINDOW_FEATURES:
            raise SettingsError(f"value: must be a field of an event, got {found.value}")
        if found.key_secret and not _SECRET.fullmatch(found.key_secret):
            rule = "must be projects/PROJECT/secrets/SECRET/versions/VERSION"
            raise SettingsError(f"key_secret: {rule}, got {found.key_secret!r}")
        return found
