"""All invariants: those of the package, and the policies that also check objects."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

from policies import invariants as package
from policies.framework.finding import Finding
from policies.framework.registry import Listed, by_name, discover
from policies.framework.rule import Invariant, OnObjects, Policy, ResourceRule, StackRule
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


def as_invariant(policy: Policy, on_objects: OnObjects) -> Invariant[World]:
    """Return a policy as an invariant, with its default settings."""

    def check(world: World) -> Iterator[Finding]:
        for finding in _findings(policy, world):
            yield replace(finding, fix=on_objects.fix)

    return Invariant(
        name=policy.name,
        description=policy.description,
        reference=on_objects.reference,
        check=check,
    )


def _findings(policy: Policy, world: World) -> Iterator[Finding]:
    resources = [obj.resource for obj in world.objects]
    if isinstance(policy, StackRule):
        yield from policy.check(resources, {})
    elif isinstance(policy, ResourceRule):
        for resource in resources:
            if policy.applies(resource):
                yield from policy.check(resource, {})
