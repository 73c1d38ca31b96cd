"""The settings of the service and the workers, read from one JSON file."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

ENDPOINTS: Final = (
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/embeddings",
    "/v1/responses",
)
"""Endpoints of requests, as OpenAI's Batch API has them."""


class SettingsError(ValueError):
    """The settings cannot be used; the message has field, rule and value."""


@dataclass(frozen=True)
class Model:
    """A name that requests may have in `model`."""

    endpoints: tuple[str, ...]
    """Endpoints that it answers."""
    objective: str = ""
    """Value of the header that gives its requests their priority; empty sends none."""


@dataclass(frozen=True)
class Settings:
    """What batches are kept in, whom workers ask, and what nobody may exceed."""

    bucket: str
    """Bucket of files and batches: the only state."""
    endpoint: str
    """URL of the gateway, without a path."""
    models: dict[str, Model]
    """Models and adapters that requests may name."""
    teams: dict[str, tuple[str, ...] | None] | None = None
    """Names that each team may use, None for all of them; None where clients are not told apart."""
    key_file: str = ""
    """File of the key that workers send; empty where requests need none."""
    metrics_of_pickers: tuple[str, ...] = ()
    """URLs of the metrics of the pools' pickers."""
    attempts: int = 5
    """Attempts at a request that fails in the middle."""
    deadline_seconds: float = 600.0
    """Longest answer."""
    first_wait_seconds: float = 1.0
    """Shortest wait before a second attempt; each further one may wait twice as long."""
    longest_wait_seconds: float = 60.0
    """Longest wait before an attempt."""
    most_in_flight: int = 16
    """Most requests of a worker at once."""
    queue_most: float = 2.0
    """Waiting requests per replica of a pool above which no request is sent."""
    keep_seconds: float = 1.0
    """Longest time between an answer and the write that keeps it."""
    lease_seconds: float = 60.0
    """After so long without a renewal another process takes over."""
    poll_seconds: float = 5.0
    """Between two looks for work, each of which lists the bucket."""
    most_lines: int = 50_000
    """Requests of a batch."""
    most_bytes: int = 200 * 2**20
    """Bytes of a file."""
    shard_lines: int = 500
    """Requests that one worker takes at a time."""
    shard_bytes: int = 8 * 2**20
    """Bytes of requests that one worker takes at a time."""
    window_seconds: int = 24 * 3600
    """How long a batch may take."""
    retention_days: int = 30
    """Days that files and batches are kept, by the bucket's lifecycle."""
    replicas: int = 1
    """Replicas of the service: each reports its share of the backlog."""
    port: int = 8000
    """Port of the service."""
    metrics_port: int = 9090
    """Port of metrics and health."""
    address: str = ""
    """Address of the ports; empty for all."""
    scratch: str = ""
    """Folder for uploads on their way; empty for the system's."""


def read_settings(path: Path) -> Settings:
    """Return the settings of a file.

    Raises:
        SettingsError: A field is missing, unknown or of another kind.
    """
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise SettingsError(f"{path}: must be a JSON file, got {error}") from None
    if not isinstance(content, dict):
        raise SettingsError(f"{path}: must be a JSON object, got {type(content).__name__}")
    given = cast("dict[str, Any]", content)
    known = Settings.__dataclass_fields__
    for name in given:
        if name not in known:
            raise SettingsError(f"{name}: must be one of {', '.join(sorted(known))}, got {name!r}")
    try:
        given.setdefault("address", os.environ.get("POD_IP", ""))
        given["models"] = {
            name: Model(tuple(each["endpoints"]), str(each.get("objective", "")))
            for name, each in given.get("models", {}).items()
        }
        teams = given.get("teams")
        if teams is not None:
            given["teams"] = {
                team: None if names is None else tuple(names) for team, names in teams.items()
            }
        given["metrics_of_pickers"] = tuple(given.get("metrics_of_pickers", ()))
        found = Settings(**given)
    except (AttributeError, KeyError, TypeError) as error:
        raise SettingsError(f"{path}: {error}") from None
    _check(found)
    return found


def _check(settings: Settings) -> None:
    if not settings.models:
        raise SettingsError("models: must have one or more, got none")
    for name, model in settings.models.items():
        for endpoint in model.endpoints:
            if endpoint not in ENDPOINTS:
                rule = f"must be one of {', '.join(ENDPOINTS)}"
                raise SettingsError(f"models.{name}.endpoints: {rule}, got {endpoint!r}")
    for each in ("attempts", "most_in_flight", "replicas", "shard_lines"):
        if getattr(settings, each) < 1:
            raise SettingsError(f"{each}: must be 1 or more, got {getattr(settings, each)}")
    if not settings.endpoint.startswith(("http://", "https://")):
        raise SettingsError(f"endpoint: must be a URL, got {settings.endpoint!r}")
