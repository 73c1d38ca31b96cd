"""The settings of a worker, read from one JSON file."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from workloads.common.settings import (
    SettingsError,
    check_bounds,
    check_endpoint,
    read_file,
    read_object,
)

__all__ = ["Settings", "SettingsError", "read_settings"]

_KINDS: Final = {"source": ("kafka", "pubsub"), "results": ("bigquery", "bucket", "topic")}


@dataclass(frozen=True)
class Settings:
    """Source, endpoint and destination of a worker, and its limits."""

    stream: str
    """Name of the stream, first part of the ids of its results."""
    source: dict[str, Any]
    """`kind`, and what that kind needs: `subscription`, or `brokers`, `topic` and `group`."""
    results: dict[str, Any]
    """`kind`, and `topic`, `bucket` with `prefix`, or `table`."""
    dead_letters: str
    """Topic of the messages that no attempt helps."""
    endpoint: str
    """URL of the gateway, without a path."""
    model: str
    """Model that answers a message that names none."""
    names: tuple[str, ...]
    """Models and adapters that a message may name."""
    objective: str = ""
    """Value of the header that gives requests their priority; empty sends none."""
    metrics_of_picker: str = ""
    """URL of the metrics of the pool's picker; empty if the queue is not looked at."""
    key_file: str = ""
    """File of the key of the clients' team; empty where requests need none."""
    team: str = ""
    """Team that the requests act for; empty for the team of the key."""
    attempts: int = 5
    """Attempts at a message that the model may be able to answer."""
    ordered: bool = False
    """Whether messages of one key are answered one after another."""
    deadline_seconds: float = 600.0
    """Maximum processing time of a message, during which its lease is extended."""
    max_in_flight: int = 16
    """Maximum concurrent requests."""
    max_bytes: int = 1 << 20
    """Maximum size of a message."""
    queue_most: float = 2.0
    """Waiting requests per replica of the pool above which no request is sent."""
    first_wait_seconds: float = 1.0
    """Shortest wait before a second attempt; each further one may wait twice as long."""
    longest_wait_seconds: float = 60.0
    """Longest wait before an attempt."""
    port: int = 9090
    """Port of metrics and health."""
    address: str = ""
    """Address of that port; empty for all."""


def read_settings(path: Path) -> Settings:
    """Return the settings of a file.

    Raises:
        SettingsError: A field is missing, unknown or of another kind.
    """
    given = read_object(read_file(path), Settings, str(path))
    try:
        given.setdefault("address", os.environ.get("POD_IP", ""))
        given["names"] = tuple(given.get("names", ()))
        found = Settings(**given)
    except TypeError as error:
        raise SettingsError(f"{path}: {error}") from None
    _check(found)
    return found


def _check(settings: Settings) -> None:
    for field, kinds in _KINDS.items():
        kind = getattr(settings, field).get("kind")
        if kind not in kinds:
            raise SettingsError(f"{field}.kind: must be one of {', '.join(kinds)}, got {kind!r}")
    check_bounds("stream", settings)
    check_endpoint(settings.endpoint)
