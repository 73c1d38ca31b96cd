"""The state of an object in a readiness check."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from twin.providers.kubernetes.manifests.fields import entries
from twin.wire.kube import JsonObject, Kube


@dataclass(frozen=True)
class State:
    """The result of a readiness check."""

    ready: bool
    message: str = ""
    """Human-readable reason why the object is not ready; changes with its progress."""
    failed: bool = False
    """Whether the object cannot become ready, so that waiting is useless."""
    passes_late: bool = False
    """Whether the object counts as ready in this state at the end of the wait."""


READY = State(ready=True)
Check = Callable[[JsonObject, Kube], State]
"""Checks a live object, and other objects through the API if needed."""


def condition(obj: JsonObject, kind: str) -> dict[str, Any]:
    """Return a status condition of an object; empty if it has none of that type."""
    conditions: list[dict[str, Any]] = entries(obj, "status", "conditions")
    return next((entry for entry in conditions if entry.get("type") == kind), dict[str, Any]())


def is_condition(obj: JsonObject, kind: str, status: str = "True") -> bool:
    """Return whether a status condition has a status."""
    return condition(obj, kind).get("status") == status


def waiting(message: str) -> State:
    """Return the state of an object that can still become ready."""
    return State(ready=False, message=message)


def failing(message: str) -> State:
    """Return the state of an object that will not become ready."""
    return State(ready=False, message=message, failed=True)
