"""Discovers rules: each module in a subfolder of a package defines one, as `RULE`."""

import importlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from policies.framework.finding import quoted
from policies.framework.rule import Rule

R = TypeVar("R", bound=Rule)


@dataclass(frozen=True)
class Listed(Generic[R]):
    """A rule with its location."""

    rule: R
    subject: str
    """Name of its folder."""
    file: Path


def discover(package: str, kind: type[R]) -> list[Listed[R]]:
    """Return the rules in the subfolders of a package, one subfolder per subject.

    Raises:
        TypeError: a module has no rule of this kind.
    """
    found: list[Listed[R]] = []
    root = Path(str(importlib.import_module(package).__file__)).parent
    for file in sorted(root.glob("*/[!_]*.py")):
        name = f"{package}.{file.parent.name}.{file.stem}"
        rule: object = getattr(importlib.import_module(name), "RULE", None)
        if not isinstance(rule, kind):
            raise TypeError(f"{name}.RULE: must be a {kind.__name__}, got {quoted(rule)}")
        found.append(Listed(rule, file.parent.name, file))
    return found


def by_name(rules: Iterable[Listed[R]]) -> dict[str, Listed[R]]:
    """Return rules by name, sorted.

    Raises:
        ValueError: two have the same name.
    """
    found: dict[str, Listed[R]] = {}
    for listed in rules:
        if listed.rule.name in found:
            raise ValueError(f"rules: names must be unique, got {listed.rule.name} twice")
        found[listed.rule.name] = listed
    return dict(sorted(found.items()))
