"""What happens in a cluster is recorded."""

from collections.abc import Iterator

from policies.reading import CLUSTER, entries, is_type
from policies.rule import Config, Resource, Rule


def _check(resource: Resource, config: Config) -> Iterator[str]:
    del config
    for block in ("loggingConfig", "monitoringConfig"):
        parts = entries(resource.props, block, "enableComponents")
        if "SYSTEM_COMPONENTS" not in parts:
            yield f"{block}.enableComponents: must have SYSTEM_COMPONENTS, got {parts}"


RULE = Rule(
    name="observed-cluster",
    description="Clusters send logs and metrics of the system to Cloud Operations.",
    applies=is_type(CLUSTER),
    check=_check,
    reference="CIS GKE Benchmark 5.7.1 (logging and monitoring)",
)
