"""Backends of a platform and their relay."""

from collections.abc import Mapping
from typing import Final

from infra.plan.served import ServedModel
from infra.stack import Backend, BackendKind, Fallback, Layer, Platform

RELAY: Final = "relay"
"""Name of the relay's objects and service account, the same in every cluster."""


def has_backends(platform: Platform) -> bool:
    """Return whether a relay runs in the clusters of a platform."""
    return bool(platform.backends) and platform.layer is Layer.ALL


def kinds_of(platform: Platform) -> set[BackendKind]:
    """Return the kinds of the backends of a platform."""
    return {place.kind for backend in platform.backends.values() for place in backend.places}


def secrets_of(backends: Mapping[str, Backend]) -> list[str]:
    """Return the secret names that backends reference, sorted."""
    places = [place for backend in backends.values() for place in backend.places]
    return sorted({place.secret for place in places if place.secret is not None})


def fallback_of(served: ServedModel) -> Fallback | None:
    """Return the fallback of a model in a region. A canary has none of its own."""
    return served.settings.fallback if served.version is None else None
