"""Conditions and status entries for users' objects."""

from collections.abc import Iterable
from dataclasses import dataclass

from twin.cluster.gateway.translation.objects import CONTROLLER, JsonObject, Key


@dataclass(frozen=True)
class Condition:
    """One condition of an object's status."""

    type: str
    ok: bool
    reason: str
    message: str = ""

    def as_json(self) -> JsonObject:
        """Return it in API format, without time and generation."""
        status = "True" if self.ok else "False"
        return {
            "type": self.type,
            "status": status,
            "reason": self.reason,
            "message": self.message,
        }


@dataclass(frozen=True)
class StatusUpdate:
    """The desired status of an object."""

    kind: str
    key: Key
    status: JsonObject
    """Content, with conditions without times and generations."""


class Problem(Exception):
    """An object or a part of it is rejected, with a reason of the API and a sentence."""

    def __init__(self, reason: str, message: str, condition: str = "Accepted") -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.condition = condition
        """The condition that becomes false."""

    def as_condition(self) -> Condition:
        """Return the false condition."""
        return Condition(self.condition, False, self.reason, self.message)


def parent_status(parent_ref: JsonObject, conditions: Iterable[Condition]) -> JsonObject:
    """Return an entry of `status.parents`."""
    return {
        "parentRef": parent_ref,
        "controllerName": CONTROLLER,
        "conditions": [c.as_json() for c in conditions],
    }


def ancestor_status(ancestor_ref: JsonObject, conditions: Iterable[Condition]) -> JsonObject:
    """Return an entry of `status.ancestors`."""
    return {
        "ancestorRef": ancestor_ref,
        "controllerName": CONTROLLER,
        "conditions": [c.as_json() for c in conditions],
    }


def merge_conditions(
    old: Iterable[JsonObject], new: Iterable[JsonObject], generation: int, now: str
) -> list[JsonObject]:
    """Return the new conditions with transition times, kept if the status is unchanged."""
    before = {c["type"]: c for c in old}
    merged: list[JsonObject] = []
    for condition in new:
        known = before.get(condition["type"])
        same = known is not None and known["status"] == condition["status"]
        changed = known["lastTransitionTime"] if known is not None and same else now
        merged.append(
            {**condition, "observedGeneration": generation, "lastTransitionTime": changed}
        )
    return merged
