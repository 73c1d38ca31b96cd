"""How far an object is, as a readiness check sees it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from twin.providers.kubernetes.manifests.fields import entries
from twin.wire.kube import JsonObject, Kube


@dataclass(frozen=True)
class State:
    """The answer of a readiness check."""

    ready: bool
    message: str = ""
    """What is still missing, for people; changes as the object gets on."""
    failed: bool = False
    """The object will not become ready: waiting on is of no use."""
    passes_late: bool = False
    """The object counts as ready if this is how it is when the wait is over."""


READY = State(ready=True)
Check = Callable[[JsonObject, Kube], State]
"""Looks at a live object, and at others through the API if it must."""


def condition(obj: JsonObject, kind: str) -> dict[str, Any]:
    """Return a status condition of an object, empty where it has none of that type."""
    conditions: list[dict[str, Any]] = entries(obj, "status", "conditions")
    return next((entry for entry in conditions if entry.get("type") == kind), dict[str, Any]())


def is_condition(obj: JsonObject, kind: str, status: str = "True") -> bool:
    """Say whether a status condition has a status."""
    return condition(obj, kind).get("status") == status


def waiting(message: str) -> State:
    """Return the state of an object that may yet become ready."""
    return State(ready=False, message=message)


def failing(message: str) -> State:
    """Return the state of an object that will not become ready."""
    return State(ready=False, message=message, failed=True)
