"""What an invariant is, and what it finds."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from policies.invariants.world import Obj, World


class Verdict(StrEnum):
    """How sure a finding is."""

    BROKEN = "broken"
    """The rule does not hold."""
    UNKNOWN = "unknown"
    """The rule cannot decide; the finding says what is missing."""


@dataclass(frozen=True)
class Finding:
    """One object that breaks a rule, or about which a rule cannot decide."""

    verdict: Verdict
    object: str
    """`Kind namespace/name`."""
    field: str
    """Path of the field in the object."""
    value: str
    """What the field has; empty where it is missing."""
    why: str
    """What does not agree, or for an unknown what is missing."""
    fix: str
    """What to write instead, or what to add so that the rule can decide."""
    file: str
    """Where the object was read."""
    rule: str = ""
    world: str = ""
    """Name of the cluster, where several were read."""

    def of(self, rule: str, world: str) -> "Finding":
        """Return the finding with the rule and the world that it belongs to."""
        return replace(self, rule=rule, world=world)


def broken(obj: Obj, field: str, value: Any, why: str, fix: str) -> Finding:
    """Return the finding that an object breaks a rule."""
    return Finding(Verdict.BROKEN, obj.title, field, shown(value), why, fix, obj.file)


def unknown(obj: Obj, field: str, value: Any, missing: str, fix: str) -> Finding:
    """Return the finding that a rule cannot decide about an object, for want of `missing`."""
    return Finding(Verdict.UNKNOWN, obj.title, field, shown(value), missing, fix, obj.file)


def absent(
    obj: Obj, field: str, value: Any, because: tuple[str, str], unless_read: tuple[str, str] | None
) -> Finding:
    """Return the finding that an object names another that is not there.

    Args:
        obj: that names it.
        field: that names it.
        value: the name.
        because: why that is wrong, and what to write instead.
        unless_read: what is missing and what to add, where none of the kind was read at all, so
            that nobody knows; None where some were read.
    """
    if unless_read is not None:
        return unknown(obj, field, value, *unless_read)
    return broken(obj, field, value, *because)


def shown(value: Any) -> str:
    """Return a value as a message spells it, cut where it is long."""
    text = "" if value is None else str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


Check = Callable[[World], Iterator[Finding]]


@dataclass(frozen=True)
class Invariant:
    """A rule over the objects of one cluster."""

    name: str
    """Kebab-case, unique."""
    holds: str
    """What must hold, as one sentence."""
    source: str
    """The document, defect or schema the rule comes from."""
    check: Check
