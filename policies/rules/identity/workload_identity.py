"""Pods get Google credentials from Workload Identity, not from the node."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken, quoted
from policies.framework.reading import CLUSTER, NODE_POOL, at, is_type
from policies.framework.resources import Resource
from policies.framework.rule import Config, ResourceRule


def _check(resource: Resource, _: Config) -> Iterator[Finding]:
    if resource.type == CLUSTER:
        if at(resource.props, "enableAutopilot"):
            return  # always on
        pool = at(resource.props, "workloadIdentityConfig", "workloadPool")
        if not pool:
            yield broken(
                resource,
                "workloadIdentityConfig.workloadPool",
                quoted(pool),
                "must be PROJECT.svc.id.goog",
            )
        return
    mode = at(resource.props, "nodeConfig", "workloadMetadataConfig", "mode")
    if mode != "GKE_METADATA":
        yield broken(
            resource,
            "nodeConfig.workloadMetadataConfig.mode",
            quoted(mode),
            "must be 'GKE_METADATA'",
        )


RULE = ResourceRule(
    name="workload-identity",
    description="Pods get credentials from Workload Identity and cannot read those of their node.",
    applies=is_type(CLUSTER, NODE_POOL),
    check=_check,
    cis=("5.2.2", "5.4.1"),
)
