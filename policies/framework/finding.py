"""What a rule finds: one resource or object, one field, what is wrong, and how to fix it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol


class Verdict(StrEnum):
    """How certain a finding is."""

    BROKEN = "broken"
    """The rule does not hold."""
    UNKNOWN = "unknown"
    """The rule cannot decide; the finding says what is missing."""


class Subject(Protocol):
    """What a finding is about: a resource, or a rendered object."""

    @property
    def identity(self) -> str:
        """What identifies it: a URN, or `Kind namespace/name`."""
        ...

    @property
    def file(self) -> str:
        """File it was read from; empty while Pulumi runs."""
        ...


@dataclass(frozen=True)
class Finding:
    """One subject that breaks a rule, or about which a rule cannot decide."""

    verdict: Verdict
    object: str
    """What identifies the subject."""
    field: str
    """Path of the field in the subject."""
    value: str
    """What the field has, as a message spells it; empty where there is nothing to add."""
    why: str
    """What must hold, or for an unknown what is missing."""
    fix: str = ""
    """What to write instead, or what to add so that the rule can decide."""
    file: str = ""
    """File the subject was read from."""
    rule: str = ""
    """Name of the rule; set by the runner."""
    world: str = ""
    """Name of the cluster, where several were read; set by the runner."""

    @property
    def message(self) -> str:
        """One line: field, rule and value."""
        return f"{self.field}: {self.why}" + (f", got {self.value}" if self.value else "")


def broken(subject: Subject, field: str, value: Any, why: str, fix: str = "") -> Finding:
    """Return the finding that a subject breaks a rule."""
    return _finding(Verdict.BROKEN, subject, field, value, why, fix)


def unknown(subject: Subject, field: str, value: Any, missing: str, fix: str) -> Finding:
    """Return the finding that a rule cannot decide about a subject because of what is missing."""
    return _finding(Verdict.UNKNOWN, subject, field, value, missing, fix)


def absent(
    subject: Subject,
    field: str,
    value: Any,
    because: tuple[str, str],
    unless_read: tuple[str, str] | None,
) -> Finding:
    """Return the finding that a subject names an object that does not exist.

    Args:
        subject: the one that names it.
        field: the field with the name.
        value: the name.
        because: why that is wrong, and what to write instead.
        unless_read: what is missing and what to add, where none of the kind was read at all; None
            where some were read.
    """
    if unless_read is not None:
        return unknown(subject, field, value, *unless_read)
    return broken(subject, field, value, *because)


def quoted(value: Any) -> str:
    """Return a value as a policy's message quotes it; what is not set is `nothing`."""
    return "nothing" if value is None else repr(value)


def _finding(
    verdict: Verdict, subject: Subject, field: str, value: Any, why: str, fix: str
) -> Finding:
    text = "" if value is None else str(value)
    return Finding(verdict, subject.identity, field, text, why, fix, subject.file)
