"""Permissions in a cluster come from IAM and RBAC, not from request attributes."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken, quoted
from policies.framework.reading import CLUSTER, at, is_type
from policies.framework.resources import Resource
from policies.framework.rule import Config, ResourceRule


def _check(resource: Resource, _: Config) -> Iterator[Finding]:
    value = at(resource.props, "enableLegacyAbac")
    if value is True:
        yield broken(resource, "enableLegacyAbac", quoted(value), "must be off")


RULE = ResourceRule(
    name="legacy-authorization",
    description="Clusters do not use attribute-based access control (ABAC).",
    applies=is_type(CLUSTER),
    check=_check,
    cis=("5.8.3",),
)
