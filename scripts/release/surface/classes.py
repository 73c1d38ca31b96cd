"""The stability of public names: what the data file says, and deprecations."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from infra.stack.renames import BEFORE_RELEASES, RENAMES, minor_of
from scripts.release.surface.names import Kind

_FILE: Final = Path(__file__).with_name("classes.yaml")
_BELOW: Final = (".", "=", " ")
"""Characters that begin what is below a name."""


def _is_below(name: str, other: str) -> bool:
    """Return whether a name is another one, or below it."""
    return name == other or (name.startswith(other) and name[len(other)] in _BELOW)


class Stability(StrEnum):
    """What users may expect of a name."""

    STABLE = "stable"
    BETA = "beta"
    EXPERIMENTAL = "experimental"
    DEPRECATED = "deprecated"


@dataclass(frozen=True)
class Class:
    """Names that are not stable, and why."""

    stability: Stability
    reason: str
    """Markdown, with links relative to docs/reference."""
    names: tuple[str, ...]
    """Beginnings of names, each with its kind: `stack pipelines`."""

    def covers(self, name: str) -> bool:
        """Return whether it covers a name, given with its kind."""
        return any(_is_below(name, each) for each in self.names)


@dataclass(frozen=True)
class Deprecation:
    """A name that a later version no longer has."""

    name: str
    """With its kind."""
    new: str
    since: str
    """Minor version that accepts both names first, and warns of the old one."""


@dataclass(frozen=True)
class Classes:
    """What is known of names besides the code."""

    released: str | None
    """Latest released version, or None."""
    classes: tuple[Class, ...] = ()
    deprecations: tuple[Deprecation, ...] = ()

    def stability_of(self, name: str) -> Stability:
        """Return the class of a name, given with its kind."""
        if self.deprecation_of(name) is not None:
            return Stability.DEPRECATED
        found = (each.stability for each in self.classes if each.covers(name))
        return next(found, Stability.STABLE)

    def deprecation_of(self, name: str) -> Deprecation | None:
        """Return the deprecation of a name, given with its kind."""
        return next((each for each in self.deprecations if _is_below(name, each.name)), None)

    def is_over(self, deprecation: Deprecation) -> bool:
        """Return whether a released version has warned of the name."""
        return self.released is not None and (
            minor_of(deprecation.since) <= minor_of(self.released)
        )


@cache
def classes() -> Classes:
    """Return the content of classes.yaml, with the renamed words of stacks."""
    return classes_of(yaml.safe_load(_FILE.read_text(encoding="utf-8")))


def classes_of(data: Mapping[str, Any]) -> Classes:
    """Return classes from data of the form of classes.yaml."""
    renamed = (
        Deprecation(f"{Kind.STACK} {each.name}", each.new, each.since)
        for each in RENAMES
        if each.since != BEFORE_RELEASES
    )
    return Classes(
        data["released"],
        tuple(
            Class(Stability(each["class"]), each["reason"], tuple(each["names"]))
            for each in data["classes"]
        ),
        (*renamed, *(Deprecation(**each) for each in data["deprecated"])),
    )
