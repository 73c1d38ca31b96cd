"""The settings that a sweep may try, stated in a YAML file or by default."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from gke_inference.catalogue.problems import Document, one_of
from gke_inference.settings import Settings, Word
from scripts.rehearse.files import settings_of_file


class Order(Word):
    """Order of the rungs of the same hardware; reservations, which are paid for, stay first."""

    SPOT_FIRST = "spot-first"
    SPOT_LAST = "spot-last"


class ModelBounds(Settings):
    """Values to try for a model. A field that is left out keeps the stack's value."""

    min: tuple[int, ...] = ()
    """Values of `replicas.min`."""
    max: tuple[int, ...] = ()
    """Values of `replicas.max`."""
    standby: tuple[int, ...] = ()
    """Values of `replicas.standby`."""
    scale_in_delay_seconds: tuple[int, ...] = ()
    """Values of `replicas.scale_in_delay_seconds`."""
    queue_depth: tuple[int, ...] = ()
    """Values of `autoscaling.queue_depth`."""
    kv_cache_percent: tuple[int, ...] = ()
    """Values of `autoscaling.kv_cache_percent`."""
    running_requests: tuple[int, ...] = ()
    """Values of `autoscaling.running_requests`, for models that have it."""
    regions: tuple[tuple[str, ...], ...] = ()
    """Values of `regions`."""


class CapacityBounds(Settings):
    """What to try for a capacity."""

    order: tuple[Order, ...] = ()
    """Orders of the rungs."""


class Bounds(Settings):
    """Bounds of a sweep."""

    models: dict[str, ModelBounds] | None = None
    """Values by model; other models stay as they are. Default: values near the present ones, for
    every model with a latency objective."""
    capacity: dict[str, CapacityBounds] | None = None
    """Orders by capacity; others stay as they are. Default: both orders, for every capacity whose
    models all have a latency objective."""
    most_failed_percent: float = Field(default=0.1, ge=0, le=100)
    """Requests of a model that may fail for lack of replicas, in percent. Requests that a team's
    limit refuses do not count. The default is assumed."""
    finalists: int = Field(default=2, ge=1, le=20)
    """Settings of each group that run for the whole traffic, beside the present ones."""


_DOCUMENT = Document(Bounds.model_json_schema, "is not a field of bounds")


def read_bounds(file: Path) -> Bounds:
    """Return the bounds of a YAML file.

    Raises:
        InputError: The file breaks a rule.
        OSError: It cannot be read.
    """
    return settings_of_file(file, Bounds, _DOCUMENT)


def check_names(bounds: Bounds, models: Mapping[str, Any], capacity: Mapping[str, Any]) -> None:
    """Check that the stack has what the bounds name.

    Raises:
        InputError: It does not.
    """
    for name in bounds.models or {}:
        if name not in models:
            raise one_of("models", name, list(models))
    for name in bounds.capacity or {}:
        if name not in capacity:
            raise one_of("capacity", name, list(capacity))
