"""Nobody commits to years of spending by a deployment."""

from collections.abc import Iterator

from policies.reading import at, entries, is_type
from policies.rule import Config, Resource, Rule


def _check(resource: Resource, config: Config) -> Iterator[str]:
    if resource.name in [str(name) for name in entries(config, "allowed")]:
        return
    plan = at(resource.props, "plan")
    yield f"plan: must not be bought by a stack, as nothing undoes it, got {plan!r}"


RULE = Rule(
    name="commitments",
    description="Commitments to spend for years are bought by people, not by a stack.",
    applies=is_type("gcp:compute/regionCommitment:RegionCommitment"),
    check=_check,
    reference="Compute Engine: commitments cannot be cancelled",
    config={
        "allowed": {
            "type": "array",
            "items": {"type": "string"},
            "default": [],
            "description": "Logical names of commitments that are meant.",
        }
    },
)
