"""Deployments purchase no multi-year commitments."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken, quoted
from policies.framework.reading import at, entries, is_type
from policies.framework.resources import Resource
from policies.framework.rule import Config, ResourceRule


def _check(resource: Resource, config: Config) -> Iterator[Finding]:
    if resource.name in [str(name) for name in entries(config, "allowed")]:
        return
    plan = at(resource.props, "plan")
    yield broken(
        resource, "plan", quoted(plan), "must not be purchased by a stack, as it cannot be undone"
    )


RULE = ResourceRule(
    name="commitments",
    description="Stacks do not purchase commitments; people do.",
    applies=is_type("gcp:compute/regionCommitment:RegionCommitment"),
    check=_check,
    reference="Compute Engine: commitments cannot be cancelled",
    config={
        "allowed": {
            "type": "array",
            "items": {"type": "string"},
            "default": [],
            "description": "Logical names of allowed commitments.",
        }
    },
)
