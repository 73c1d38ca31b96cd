"""Clusters of production cannot be deleted by one command."""

from collections.abc import Iterator

from policies.reading import CLUSTER, PRODUCTION_CONFIG, at, is_production, is_type
from policies.rule import Config, Resource, Rule


def _check(resource: Resource, config: Config) -> Iterator[str]:
    if not is_production(resource, config):
        return
    value = at(resource.props, "deletionProtection")
    if value is not True:
        yield f"deletionProtection: must be true in production, got {value!r}"


RULE = Rule(
    name="deletion-protection",
    description="Clusters of production have deletion protection.",
    applies=is_type(CLUSTER),
    check=_check,
    config=PRODUCTION_CONFIG,
    reference="GKE: deletion protection",
)
