"""The bill can be split by namespace and label."""

from collections.abc import Iterator

from policies.reading import CLUSTER, at, is_type
from policies.rule import Config, Resource, Rule


def _check(resource: Resource, config: Config) -> Iterator[str]:
    del config
    value = at(resource.props, "costManagementConfig", "enabled")
    if value is not True:
        yield f"costManagementConfig.enabled: must be true, got {value!r}"


RULE = Rule(
    name="cost-allocation",
    description="Costs of a cluster are allocated to namespaces and labels in the billing export.",
    applies=is_type(CLUSTER),
    check=_check,
    reference="GKE: cost allocations",
)
