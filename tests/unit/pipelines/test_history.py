"""Events of a pipeline, and the features that come from a key's earlier events."""

import json
import random
from typing import Any

import pytest

from tests.unit.pipelines.given import GIVEN
from workloads.pipelines.events import Event, UnusableEventError, read_event
from workloads.pipelines.history import Seen, before, still_needed
from workloads.pipelines.settings import Settings, SettingsError

SETTINGS = Settings.of(json.dumps(GIVEN))
PAYMENT = {"id": "a", "card": "c", "shop": "s", "amount": 2, "abroad": True}
NOW = 10**15


def event(micros: int, name: str = "a", value: float = 1.0) -> Event:
    return Event(id=name, key="c", group="s", micros=micros, value=value)


def test_features_have_the_order_of_the_model() -> None:
    found = read_event(json.dumps(PAYMENT).encode(), 7, SETTINGS, now_micros=NOW)
    assert (found.id, found.key, found.group, found.micros, found.value) == ("a", "c", "s", 7, 2.0)
    assert found.features(SETTINGS, 3, 12.5) == [2.0, 3.0, 1.0, 12.5]


@pytest.mark.parametrize(
    ("data", "micros", "reason", "detail"),
    [
        (b"{", 0, "not-json", ""),
        (b"[]", 0, "not-an-object", "a JSON list"),
        (b'"' + b"a" * 65_536, 0, "too-large", "65537 bytes, at most 65536"),
        ({"id": ""}, 0, "no-event", "id must be a string that is not empty"),
        ({"card": 7}, 0, "no-event", "card must be a string that is not empty"),
        ({"amount": "2"}, 0, "no-event", "amount must be a number"),
        ({"amount": float("nan")}, 0, "no-event", "amount must be a number"),
        ({"amount": 10**400}, 0, "no-event", "amount must be at most 3.40282e+38"),
        ({"amount": float("-inf")}, 0, "no-event", "amount must be at most 3.40282e+38"),
        ({"card": "\ud800"}, 0, "no-event", "card must be Unicode text"),
        (b"[" * 60_000, 0, "not-json", ""),
        ({"abroad": None}, 0, "no-event", "abroad must be a number"),
        ({}, NOW + 7_200 * 10**6, "future-time", "7200 s ahead"),
    ],
)
def test_what_is_no_event_has_a_reason(data: Any, micros: int, reason: str, detail: str) -> None:
    body = data if isinstance(data, bytes) else json.dumps({**PAYMENT, **data}).encode()
    with pytest.raises(UnusableEventError) as raised:
        read_event(body, micros, SETTINGS, now_micros=NOW)
    assert (raised.value.reason, raised.value.detail) == (reason, detail)


def test_the_window_ends_before_the_event_and_is_open_at_its_start() -> None:
    past = [Seen(0, "x", 1.0), Seen(1, "y", 2.0), Seen(100, "b", 4.0), Seen(101, "z", 8.0)]
    assert before(past, event(100, "c"), 100) == (2, 6.0)  # x is exactly the window older
    assert before(past, event(100, "a"), 100) == (1, 2.0)  # b has the same time and a larger ID


def test_what_is_forgotten_is_not_in_the_window_of_any_event_that_may_still_come() -> None:
    source = random.Random(5)
    window, lateness = 50, 20
    past = [Seen(source.randrange(200), str(at), 1.0) for at in range(200)]
    kept = still_needed(past, 200, window + lateness)
    assert 0 < len(kept) < len(past)
    for micros in range(200 - lateness, 260):
        late = event(micros, "new")
        assert before(kept, late, window) == before(past, late, window)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"threshold": 2}, "threshold: must be 0 to 1, got 2"),
        ({"window_seconds": 0}, "window_seconds: must be 1 to 2678400, got 0"),
        ({"value": "window_sum"}, "value: must be a field of an event, got window_sum"),
        ({"features": ["amount", "amount"]}, "features: must be different, got amount, amount"),
        ({"endpoint": "models"}, "endpoint: must be a URL, got 'models'"),
        ({"key_secret": "key"}, "key_secret: must be projects/PROJECT/secrets/SECRET/versions/"),
        ({"windows": 1}, "windows: must be one of"),
    ],
)
def test_wrong_settings_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError) as raised:
        Settings.of(json.dumps({**GIVEN, **change}))
    assert str(raised.value).startswith(message)
