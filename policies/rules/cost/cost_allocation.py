"""Costs can be split by namespace and label."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken, quoted
from policies.framework.reading import CLUSTER, at, is_type
from policies.framework.resources import Resource
from policies.framework.rule import Config, ResourceRule


def _check(resource: Resource, _: Config) -> Iterator[Finding]:
    value = at(resource.props, "costManagementConfig", "enabled")
    if value is not True:
        yield broken(resource, "costManagementConfig.enabled", quoted(value), "must be true")


RULE = ResourceRule(
    name="cost-allocation",
    description="Cluster costs are broken down by namespace and label in the billing export.",
    applies=is_type(CLUSTER),
    check=_check,
    reference="GKE: cost allocations",
)
