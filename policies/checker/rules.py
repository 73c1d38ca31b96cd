"""All invariants: those of the package, and the policies that also check objects."""

from functools import cache
from typing import Any

from policies import invariants as package
from policies.checker.from_pack import as_invariant
from policies.framework.registry import Listed, by_name, discover
from policies.framework.rule import Invariant
from policies.objects.world import World
from policies.rules import policies


@cache
def invariants() -> dict[str, Listed[Invariant[World]]]:
    """Return every invariant by name."""
    own: list[Listed[Any]] = discover(package.__name__, Invariant)
    shared = [
        Listed(as_invariant(listed.rule, on_objects), on_objects.subject, listed.file)
        for listed in policies().values()
        if (on_objects := listed.rule.on_objects) is not None
    ]
    return by_name([*own, *shared])
