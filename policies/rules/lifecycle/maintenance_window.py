"""Upgrades come when the owner expects them."""

from collections.abc import Iterator

from policies.reading import CLUSTER, PRODUCTION_CONFIG, at, is_production, is_type
from policies.rule import Config, Resource, Rule


def _check(resource: Resource, config: Config) -> Iterator[str]:
    if not is_production(resource, config):
        return
    value = at(resource.props, "maintenancePolicy")
    if not value:
        yield f"maintenancePolicy: must be set in production, got {value!r}"


RULE = Rule(
    name="maintenance-window",
    description="Clusters of production say when they may be upgraded.",
    applies=is_type(CLUSTER),
    check=_check,
    reference="GKE: maintenance windows and exclusions",
    config=PRODUCTION_CONFIG,
)
