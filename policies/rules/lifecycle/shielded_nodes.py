"""Nodes verify their boot sequence."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken, quoted
from policies.framework.reading import CLUSTER, NODE_POOL, at, is_type
from policies.framework.resources import Resource
from policies.framework.rule import Config, ResourceRule


def _check(resource: Resource, _: Config) -> Iterator[Finding]:
    if resource.type == CLUSTER:
        value = at(resource.props, "enableShieldedNodes")
        if value is not True and not at(resource.props, "enableAutopilot"):
            yield broken(resource, "enableShieldedNodes", quoted(value), "must be true")
        return
    for field in ("enableIntegrityMonitoring", "enableSecureBoot"):
        value = at(resource.props, "nodeConfig", "shieldedInstanceConfig", field)
        if value is not True:
            yield broken(
                resource,
                f"nodeConfig.shieldedInstanceConfig.{field}",
                quoted(value),
                "must be true",
            )


RULE = ResourceRule(
    name="shielded-nodes",
    description="Nodes are Shielded GKE Nodes, with secure boot and integrity monitoring.",
    applies=is_type(CLUSTER, NODE_POOL),
    check=_check,
    cis=("5.5.5", "5.5.6", "5.5.7"),
)
