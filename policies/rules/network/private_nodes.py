"""Nodes have no public addresses."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken, quoted
from policies.framework.reading import CLUSTER, NODE_POOL, at, is_type
from policies.framework.resources import Resource
from policies.framework.rule import Config, ResourceRule


def _check(resource: Resource, _: Config) -> Iterator[Finding]:
    block = "privateClusterConfig" if resource.type == CLUSTER else "networkConfig"
    value = at(resource.props, block, "enablePrivateNodes")
    if value is not True:
        yield broken(resource, f"{block}.enablePrivateNodes", quoted(value), "must be true")


RULE = ResourceRule(
    name="private-nodes",
    description="Nodes have no external IP addresses and reach the internet through Cloud NAT.",
    applies=is_type(CLUSTER, NODE_POOL),
    check=_check,
    cis=("5.6.5",),
)
