"""Nodes boot a minimal image for containers."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken, quoted
from policies.framework.reading import NODE_POOL, at, is_type
from policies.framework.resources import Resource
from policies.framework.rule import Config, ResourceRule


def _check(resource: Resource, _: Config) -> Iterator[Finding]:
    value = at(resource.props, "nodeConfig", "imageType")
    if value is not None and str(value).upper() != "COS_CONTAINERD":
        yield broken(resource, "nodeConfig.imageType", quoted(value), "must be COS_CONTAINERD")


RULE = ResourceRule(
    name="node-image",
    description="Nodes run Container-Optimized OS, with which GKE tests drivers.",
    applies=is_type(NODE_POOL),
    check=_check,
    cis=("5.5.1",),
)
