"""What a rule is: a name, what must hold, and a function that yields findings.

Rules know neither the policy SDK nor where their subjects come from, so that a test calls one with
plain values. Reading a value that a preview does not know yet raises `pulumi_policy`'s
`UnknownValueError` inside the rule; the pack turns that into an advisory note, never into a pass.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from policies.framework.finding import Finding
from policies.framework.resources import Resource

World = TypeVar("World")
Config = Mapping[str, Any]
Level = Literal["advisory", "mandatory", "remediating"]
"""What a violation does: a note, a failure, or a fixed value."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Rule:
    """What the two runners and the pages share."""

    name: str
    """Kebab-case, unique among the rules of a runner."""
    description: str
    """What must hold, as one sentence."""
    reference: str
    """The section of a benchmark, document, defect or schema that says the same."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Invariant(Rule, Generic[World]):
    """A rule over the rendered objects of one cluster."""

    check: Callable[[World], Iterator[Finding]]


@dataclass(frozen=True, kw_only=True, eq=False)
class OnObjects:
    """How a policy is also checked over rendered objects, as an invariant."""

    subject: str
    """Subject it is listed under."""
    fix: str
    """What to write instead."""
    reference: str = "this project's policy pack: docs/policies.md"
    """The document or defect that the invariant comes from."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Policy(Rule):
    """A rule of the policy pack, which runs on resources while Pulumi runs."""

    config: Mapping[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    """JSON schema of each setting, with its default."""
    level: Level = "mandatory"
    on_objects: OnObjects | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class ResourceRule(Policy):
    """A policy about one resource."""

    applies: Callable[[Resource], bool]
    """Whether it looks at a resource; decided by the type alone, once for each type."""
    check: Callable[[Resource, Config], Iterator[Finding]]
    remedy: Callable[[Resource, Config], dict[str, Any]] | None = None
    """Returns the properties to change and their new values; of a remediating rule only."""


@dataclass(frozen=True, kw_only=True, eq=False)
class StackRule(Policy):
    """A policy about resources that belong together; it runs when all of them are known."""

    check: Callable[[list[Resource], Config], Iterator[Finding]]
