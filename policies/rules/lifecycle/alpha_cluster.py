"""Clusters are not alpha clusters, which are deleted after 30 days."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken, quoted
from policies.framework.reading import CLUSTER, at, is_type
from policies.framework.resources import Resource
from policies.framework.rule import Config, ResourceRule


def _check(resource: Resource, _: Config) -> Iterator[Finding]:
    value = at(resource.props, "enableKubernetesAlpha")
    if value is True:
        yield broken(resource, "enableKubernetesAlpha", quoted(value), "must be off")


RULE = ResourceRule(
    name="alpha-cluster",
    description="Clusters are not alpha clusters, which expire after 30 days without upgrades.",
    applies=is_type(CLUSTER),
    check=_check,
    cis=("5.10.2",),
)
