"""Policies on Kubernetes objects as invariants, so that one rule serves both uses."""

from collections.abc import Iterator
from dataclasses import replace

from policies.framework.finding import Finding
from policies.framework.rule import Invariant, OnObjects, Policy, ResourceRule, StackRule
from policies.objects.world import World


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
