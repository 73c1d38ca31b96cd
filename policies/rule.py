"""What a rule is: a name, what it looks at, and a function that finds violations.

Rules know nothing of the policy SDK, so a test calls one with plain values. Reading a value that a
preview does not know yet raises `pulumi_policy`'s `UnknownValueError` inside the rule; the pack
turns that into an advisory note, never into a pass.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Properties = Mapping[str, Any]


@dataclass(frozen=True)
class Resource:
    """One resource, as a rule sees it."""

    type: str
    """Type token, such as `gcp:container/cluster:Cluster`."""
    name: str
    """Logical name."""
    urn: str
    props: Properties
    """Inputs at preview, outputs afterwards; keys as in the cloud's API (camelCase)."""

    @property
    def kind(self) -> str:
        """Last part of the type: `Cluster`, `Deployment`."""
        return self.type.rpartition(":")[2]

    @property
    def stack(self) -> str:
        """Name of the stack, from the URN."""
        parts = self.urn.split(":")
        return parts[2] if len(parts) > 2 else ""


Config = Mapping[str, Any]
Level = Literal["advisory", "mandatory", "remediating"]
"""What a violation does: a note, a failure, or a mended value."""
Check = Callable[[Resource, Config], Iterator[str]]
Remedy = Callable[[Resource, Config], dict[str, Any]]
StackCheck = Callable[[list[Resource], Config], Iterator[tuple[str, str]]]


@dataclass(frozen=True)
class Rule:
    """A rule about one resource."""

    name: str
    """Kebab-case, unique in the pack; levels are configured by it."""
    description: str
    """What must hold, and why."""
    applies: Callable[[Resource], bool]
    """Whether it looks at a resource; decided by the type alone, once for each type."""
    check: Check
    """Yields one message for each violation: field, rule, value."""
    config: Mapping[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    """JSON schema of each setting, with its default."""
    level: Level = "mandatory"
    reference: str = ""
    """Section of the CIS GKE Benchmark, or a document of Google's, where one says the same."""
    remedy: Remedy | None = None
    """Returns the properties to change and their new values; of a remediating rule only."""


@dataclass(frozen=True)
class StackRule:
    """A rule about resources that belong together; it runs when all of them are known."""

    name: str
    description: str
    check: StackCheck
    """Yields (URN, message)."""
    config: Mapping[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    level: Level = "mandatory"
    reference: str = ""
    """As of `Rule`."""


def told(message: str) -> str:
    """Return a rule's message for people: what is not set is nothing, not Python's `None`."""
    return re.sub(r"\bgot None\b", "got nothing", message)
