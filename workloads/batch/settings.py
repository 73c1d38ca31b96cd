"""The settings of the service and the workers, read from one JSON file."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from workloads.common.cluster import ACCOUNT
from workloads.common.settings import (
    SettingsError,
    check_bounds,
    check_endpoint,
    check_range,
    read_file,
    read_object,
)

__all__ = [
    "ENDPOINTS",
    "START_ANNOTATION",
    "Model",
    "Settings",
    "SettingsError",
    "read_settings",
    "start_seconds",
]

ENDPOINTS: Final = (
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/embeddings",
    "/v1/images/edits",
    "/v1/images/generations",
    "/v1/responses",
)
"""Endpoints of requests, as OpenAI's Batch API has them."""
START_ANNOTATION: Final = "gke-inference/engine-start-seconds"
"""Annotation of an own engine's job with the maximum time for which the engine may have a node
without being ready, in seconds."""


@dataclass(frozen=True)
class Model:
    """A name for `model` in requests."""

    endpoints: tuple[str, ...]
    """Endpoints that the model supports."""
    objective: str = ""
    """Value of the header that sets the priority of its requests; empty sends none."""
    engine: str = ""
    """Own engine that answers its requests; empty for the pool behind the gateway."""


@dataclass(frozen=True)
class Settings:
    """Storage of batches, endpoint of workers, and limits."""

    bucket: str
    """Bucket of files and batches: the only state."""
    endpoint: str
    """URL of the gateway or of an own engine, without a path. `$(POD_IP)` is the pod's address."""
    models: dict[str, Model]
    """Models and adapters that requests can name."""
    teams: dict[str, tuple[str, ...] | None] | None = None
    """Names that each team may use, or None for all; None if clients have no teams."""
    key_file: str = ""
    """File with the key for workers; empty if requests need none."""
    metrics_of_pickers: tuple[str, ...] = ()
    """URLs of the metrics of the pools' pickers."""
    engines: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    """Job or JobSet of each own engine, without a name; the service appends the batch to the
    arguments of its container `batch`. See `start_seconds`."""
    account: str = ACCOUNT
    """Folder of the Kubernetes token, with which the service creates those Jobs."""
    attempts: int = 5
    """Maximum attempts of a request that fails in progress."""
    deadline_seconds: float = 600.0
    """Maximum duration of an answer, in seconds."""
    first_wait_seconds: float = 1.0
    """Minimum wait before a second attempt; it can double for each further one."""
    longest_wait_seconds: float = 60.0
    """Maximum wait before an attempt."""
    max_in_flight: int = 16
    """Maximum concurrent requests of a worker."""
    queue_most: float = 2.0
    """Waiting requests per replica of a pool above which no request is sent."""
    keep_seconds: float = 1.0
    """Maximum time between an answer and the write that stores it."""
    lease_seconds: float = 60.0
    """Time without a renewal after which another process takes over."""
    poll_seconds: float = 5.0
    """Interval of polling for work; each poll lists the bucket."""
    max_lines: int = 50_000
    """Maximum requests of a batch."""
    max_bytes: int = 200 * 2**20
    """Maximum bytes of a file."""
    max_stored_bytes: int = 100 * 2**30
    """Maximum bytes of a team's files and answers, above which it uploads no more."""
    idle_seconds: float = 30.0
    """Time without data after which an upload is ended."""
    shard_lines: int = 500
    """Requests that one worker takes at a time."""
    shard_bytes: int = 8 * 2**20
    """Bytes of requests that one worker takes at a time."""
    window_seconds: int = 24 * 3600
    """Maximum duration of a batch."""
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
    """Folder for uploads in progress; empty for the system's."""


def read_settings(path: Path) -> Settings:
    """Return the settings of a file.

    Raises:
        SettingsError: A field is missing, unknown or of the wrong type.
    """
    given = read_object(read_file(path), Settings, str(path))
    try:
        own = os.environ.get("POD_IP", "")
        given.setdefault("address", own)
        given["endpoint"] = given["endpoint"].replace("$(POD_IP)", own)
        given["models"] = {
            name: Model(
                tuple(each["endpoints"]),
                str(each.get("objective", "")),
                str(each.get("engine", "")),
            )
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


def start_seconds(job: dict[str, Any]) -> int:
    """Return for how many seconds an engine may have a node without being ready.

    Raises:
        SettingsError: The job does not say it.
    """
    given: dict[str, str] = job["metadata"].get("annotations") or {}
    text = given.get(START_ANNOTATION)
    if text is None or not text.isdecimal() or int(text) == 0:
        rule = f"metadata.annotations[{START_ANNOTATION}]: must be seconds, 1 or more"
        raise SettingsError(f"engines: {rule}, got {text!r}")
    return int(text)


def _check(settings: Settings) -> None:
    if not settings.models:
        raise SettingsError("models: must have one or more, got none")
    for name, model in settings.models.items():
        for endpoint in model.endpoints:
            if endpoint not in ENDPOINTS:
                rule = f"must be one of {', '.join(ENDPOINTS)}"
                raise SettingsError(f"models.{name}.endpoints: {rule}, got {endpoint!r}")
        if model.engine and model.engine not in settings.engines:
            rule = f"must be one of {', '.join(settings.engines) or 'none'}"
            raise SettingsError(f"models.{name}.engine: {rule}, got {model.engine!r}")
    for job in settings.engines.values():
        start_seconds(job)
    for each in ("attempts", "replicas", "shard_lines"):
        check_range(each, getattr(settings, each), 1)
    check_bounds("batch", settings)
    check_endpoint(settings.endpoint)
