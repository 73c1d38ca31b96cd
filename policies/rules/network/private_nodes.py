"""Nodes have no public addresses."""

from collections.abc import Iterator

from policies.reading import CLUSTER, NODE_POOL, at, is_type
from policies.rule import Config, Resource, Rule


def _check(resource: Resource, config: Config) -> Iterator[str]:
    del config
    block = "privateClusterConfig" if resource.type == CLUSTER else "networkConfig"
    value = at(resource.props, block, "enablePrivateNodes")
    if value is not True:
        yield f"{block}.enablePrivateNodes: must be true, got {value!r}"


RULE = Rule(
    name="private-nodes",
    description="Nodes have no public addresses; they reach the internet through Cloud NAT.",
    applies=is_type(CLUSTER, NODE_POOL),
    check=_check,
    reference="CIS GKE Benchmark 5.6.5 (private nodes)",
)
