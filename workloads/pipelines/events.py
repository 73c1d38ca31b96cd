"""Events as messages have them, and what becomes of those that cannot be scored."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from .settings import WINDOW_FEATURES, Settings

MOST_BYTES: Final = 64 * 1024
"""Maximum size of an event. State is stored by key, where large values are slow."""
_AHEAD_MICROS: Final = 3_600 * 10**6
"""How far a time may be in the future. An event waits for its time, which a wrong clock could put
years ahead."""

_LARGEST: Final = 3.4028234663852886e38
"""Largest number of FP32, the type of the model's features (IEEE 754 binary32)."""


class UnusableEventError(ValueError):
    """A message that is no event; has a reason and a detail."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True)
class Event:
    """An event of one key."""

    id: str
    """Identity: two events of a key with the same one are the same event."""
    key: str
    group: str
    micros: int
    """When it happened, in microseconds since 1970."""
    value: float
    numbers: Mapping[str, float] = field(default_factory=dict[str, float])
    """Its numbers, by the names of features."""

    def features(self, settings: Settings, count: int, total: float) -> list[float]:
        """Return the features in the model's order.

        Args:
            settings: Settings of the pipeline.
            count: Events in the window before it.
            total: Sum of their values.
        """
        of_window = dict(zip(WINDOW_FEATURES, (float(count), total), strict=True))
        return [
            of_window[name] if name in of_window else self.numbers[name]
            for name in settings.features
        ]


def read_event(
    data: bytes, micros: int, settings: Settings, *, now_micros: int | None = None
) -> Event:
    """Return the event of a message.

    Args:
        data: Body of the message: a JSON object with `id`, the fields that the settings name, and
            every feature that is not one of the window.
        micros: Time of the event.
        settings: Settings of the pipeline.
        now_micros: The time; by default, that of this machine.

    Raises:
        UnusableEventError: It is no event of this pipeline.
    """
    if len(data) > MOST_BYTES:
        raise UnusableEventError("too-large", f"{len(data)} bytes, at most {MOST_BYTES}")
    try:
        content: Any = json.loads(data)
    except (ValueError, RecursionError):
        raise UnusableEventError("not-json") from None
    if not isinstance(content, dict):
        raise UnusableEventError("not-an-object", f"a JSON {type(content).__name__}")
    fields = cast("dict[str, Any]", content)
    now = time.time_ns() // 1000 if now_micros is None else now_micros
    if micros > now + _AHEAD_MICROS:
        raise UnusableEventError("future-time", f"{(micros - now) // 10**6} s ahead")
    numbers = {
        name: _number(fields, name)
        for name in (*settings.features, settings.value)
        if name not in WINDOW_FEATURES
    }
    return Event(
        id=_text(fields, "id"),
        key=_text(fields, settings.key),
        group=_text(fields, settings.group),
        micros=micros,
        value=numbers[settings.value],
        numbers=numbers,
    )


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not value:
        raise UnusableEventError("no-event", f"{name} must be a string that is not empty")
    try:
        value.encode()  # keys and messages are UTF-8; JSON can escape half of a surrogate pair
    except UnicodeEncodeError:
        raise UnusableEventError("no-event", f"{name} must be Unicode text") from None
    return value


def _number(fields: Mapping[str, Any], name: str) -> float:
    value = fields.get(name)
    if isinstance(value, bool):
        return float(value)
    if not isinstance(value, (int, float)) or value != value:  # noqa: PLR0124 - NaN
        raise UnusableEventError("no-event", f"{name} must be a number")
    if abs(value) > _LARGEST:  # integers of JSON have any length
        raise UnusableEventError("no-event", f"{name} must be at most {_LARGEST:g}")
    return float(value)
