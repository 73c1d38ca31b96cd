"""What the controller tells users about their objects: conditions and status fragments."""

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
        """Return it as the API writes it, less time and generation."""
        status = "True" if self.ok else "False"
        return {
            "type": self.type,
            "status": status,
            "reason": self.reason,
            "message": self.message,
        }


@dataclass(frozen=True)
class StatusUpdate:
    """The status that an object shall have."""

    kind: str
    key: Key
    status: JsonObject
    """With conditions that lack times and generations."""


class Problem(Exception):
    """Why an object, or a part of it, is refused: a reason of the API and a sentence."""

    def __init__(self, reason: str, message: str, condition: str = "Accepted") -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.condition = condition
        """The condition it makes false."""

    def as_condition(self) -> Condition:
        """Return the condition it makes false."""
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
    """Return the new conditions with times: of the change, kept where the status is the same."""
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
