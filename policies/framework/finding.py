"""A finding: one resource or object, one field, the violation, and the fix."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol


class Verdict(StrEnum):
    """Certainty of a finding."""

    BROKEN = "broken"
    """The rule is violated."""
    UNKNOWN = "unknown"
    """The rule cannot decide. The finding names the missing information."""


class Subject(Protocol):
    """The subject of a finding: a resource, or a rendered object."""

    @property
    def identity(self) -> str:
        """Its identifier: a URN, or `Kind namespace/name`."""
        ...

    @property
    def file(self) -> str:
        """Source file, empty while Pulumi is running."""
        ...


@dataclass(frozen=True)
class Finding:
    """One subject that violates a rule, or for which a rule cannot decide."""

    verdict: Verdict
    object: str
    """Identifier of the subject."""
    field: str
    """Path of the field in the subject."""
    value: str
    """Value of the field as shown in a message, empty if there is nothing to add."""
    why: str
    """The requirement or, for an unknown, the missing information."""
    fix: str = ""
    """How to fix the violation, or what to add so that the rule can decide."""
    file: str = ""
    """Source file of the subject."""
    rule: str = ""
    """Name of the rule, set by the runner."""
    world: str = ""
    """Name of the cluster if there are several, set by the runner."""

    @property
    def message(self) -> str:
        """One line: field, rule and value."""
        return f"{self.field}: {self.why}" + (f", got {self.value}" if self.value else "")


def broken(subject: Subject, field: str, value: Any, why: str, fix: str = "") -> Finding:
    """Return a finding that a subject violates a rule."""
    return _finding(Verdict.BROKEN, subject, field, value, why, fix)


def unknown(subject: Subject, field: str, value: Any, missing: str, fix: str) -> Finding:
    """Return a finding that a rule cannot decide because information is missing."""
    return _finding(Verdict.UNKNOWN, subject, field, value, missing, fix)


def absent(
    subject: Subject,
    field: str,
    value: Any,
    because: tuple[str, str],
    unless_read: tuple[str, str] | None,
) -> Finding:
    """Return a finding that a subject references an object that does not exist.

    Args:
        subject: the one that names it.
        field: the field with the name.
        value: the name.
        because: why that is wrong, and what to write instead.
        unless_read: What is missing and what to add if no object of the kind was read; None if some
            were.
    """
    if unless_read is not None:
        return unknown(subject, field, value, *unless_read)
    return broken(subject, field, value, *because)


def quoted(value: Any) -> str:
    """Return a value as quoted in a policy message; an unset value is `nothing`."""
    return "nothing" if value is None else repr(value)


def _finding(
    verdict: Verdict, subject: Subject, field: str, value: Any, why: str, fix: str
) -> Finding:
    text = "" if value is None else str(value)
    return Finding(verdict, subject.identity, field, text, why, fix, subject.file)
