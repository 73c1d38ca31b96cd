"""Nodes prove what they booted."""

from collections.abc import Iterator

from policies.reading import CLUSTER, NODE_POOL, at, is_type
from policies.rule import Config, Resource, Rule


def _check(resource: Resource, config: Config) -> Iterator[str]:
    del config
    if resource.type == CLUSTER:
        value = at(resource.props, "enableShieldedNodes")
        if value is not True and not at(resource.props, "enableAutopilot"):
            yield f"enableShieldedNodes: must be true, got {value!r}"
        return
    for field in ("enableIntegrityMonitoring", "enableSecureBoot"):
        value = at(resource.props, "nodeConfig", "shieldedInstanceConfig", field)
        if value is not True:
            yield f"nodeConfig.shieldedInstanceConfig.{field}: must be true, got {value!r}"


RULE = Rule(
    name="shielded-nodes",
    description="Nodes are shielded, with secure boot and integrity monitoring.",
    applies=is_type(CLUSTER, NODE_POOL),
    check=_check,
    reference="CIS GKE Benchmark 5.5.5, 5.5.6, 5.5.7 (shielded nodes)",
)
