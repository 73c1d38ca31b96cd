"""A rule: a name, a requirement, and a function that yields findings.

Rules depend neither on the policy SDK nor on the source of their subjects, so tests can call them
with plain values. Reading a value that is unknown at preview raises `pulumi_policy`'s
`UnknownValueError` inside the rule. The pack reports it as an advisory note, never as a pass.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from policies.framework.finding import Finding
from policies.framework.resources import Resource

World = TypeVar("World")
Config = Mapping[str, Any]
Level = Literal["advisory", "mandatory", "remediating"]
"""Effect of a violation: a note, a failure, or a corrected value."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Rule:
    """Fields that the two runners and the pages share."""

    name: str
    """Kebab-case name, unique among the rules of a runner."""
    description: str
    """The requirement, as one sentence."""
    reference: str
    """Source of the requirement: a section of a benchmark, document, defect or schema."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Invariant(Rule, Generic[World]):
    """A rule over the rendered objects of one cluster."""

    check: Callable[[World], Iterator[Finding]]


@dataclass(frozen=True, kw_only=True, eq=False)
class OnObjects:
    """Settings for checking a policy on rendered objects, as an invariant."""

    subject: str
    """Subject it is listed under."""
    fix: str
    """How to fix a violation."""
    reference: str = "this project's policy pack: docs/policies.md"
    """Document or defect that the invariant comes from."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Policy(Rule):
    """A rule of the policy pack, which checks resources while Pulumi is running."""

    reference: str = ""
    """Source of the requirement other than the benchmark; empty if `cis` is the only one."""
    cis: tuple[str, ...] = ()
    """Numbers of the recommendations in `benchmark/cis_gke.yaml` that it implements."""
    config: Mapping[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    """JSON schema of each setting, with its default."""
    level: Level = "mandatory"
    on_objects: OnObjects | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class ResourceRule(Policy):
    """A policy on one resource."""

    applies: Callable[[Resource], bool]
    """Whether it checks a resource. Decided by the type alone, once per type."""
    check: Callable[[Resource, Config], Iterator[Finding]]
    remedy: Callable[[Resource, Config], dict[str, Any]] | None = None
    """Returns the properties to change and their new values. For remediating rules only."""


@dataclass(frozen=True, kw_only=True, eq=False)
class StackRule(Policy):
    """A policy on related resources, which runs when all of them are known."""

    check: Callable[[list[Resource], Config], Iterator[Finding]]
