"""Upgrades happen at planned times."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken, quoted
from policies.framework.reading import CLUSTER, PRODUCTION_CONFIG, at, is_production, is_type
from policies.framework.resources import Resource
from policies.framework.rule import Config, ResourceRule


def _check(resource: Resource, config: Config) -> Iterator[Finding]:
    if not is_production(resource, config):
        return
    value = at(resource.props, "maintenancePolicy")
    if not value:
        yield broken(resource, "maintenancePolicy", quoted(value), "must be set in production")


RULE = ResourceRule(
    name="maintenance-window",
    description="Production clusters have a maintenance window.",
    applies=is_type(CLUSTER),
    check=_check,
    reference="GKE: maintenance windows and exclusions",
    config=PRODUCTION_CONFIG,
)
