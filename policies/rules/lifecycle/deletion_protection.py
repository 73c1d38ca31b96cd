"""Production clusters cannot be deleted with one command."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken, quoted
from policies.framework.reading import CLUSTER, PRODUCTION_CONFIG, at, is_production, is_type
from policies.framework.resources import Resource
from policies.framework.rule import Config, ResourceRule


def _check(resource: Resource, config: Config) -> Iterator[Finding]:
    if not is_production(resource, config):
        return
    value = at(resource.props, "deletionProtection")
    if value is not True:
        yield broken(resource, "deletionProtection", quoted(value), "must be true in production")


RULE = ResourceRule(
    name="deletion-protection",
    description="Production clusters have deletion protection.",
    applies=is_type(CLUSTER),
    check=_check,
    config=PRODUCTION_CONFIG,
    reference="GKE: deletion protection",
)
