"""Clusters report logs and metrics."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken
from policies.framework.reading import CLUSTER, entries, is_type
from policies.framework.resources import Resource
from policies.framework.rule import Config, ResourceRule


def _check(resource: Resource, _: Config) -> Iterator[Finding]:
    for block in ("loggingConfig", "monitoringConfig"):
        parts = entries(resource.props, block, "enableComponents")
        if "SYSTEM_COMPONENTS" not in parts:
            yield broken(
                resource, f"{block}.enableComponents", parts, "must have SYSTEM_COMPONENTS"
            )


RULE = ResourceRule(
    name="observed-cluster",
    description="Clusters send system logs and metrics to Google Cloud Observability.",
    applies=is_type(CLUSTER),
    check=_check,
    cis=("5.7.1",),
)
