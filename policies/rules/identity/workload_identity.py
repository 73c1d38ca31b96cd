"""Pods get Google credentials by Workload Identity, not from the node."""

from collections.abc import Iterator

from policies.reading import CLUSTER, NODE_POOL, at, is_type
from policies.rule import Config, Resource, Rule


def _check(resource: Resource, config: Config) -> Iterator[str]:
    del config
    if resource.type == CLUSTER:
        if at(resource.props, "enableAutopilot"):
            return  # always on
        pool = at(resource.props, "workloadIdentityConfig", "workloadPool")
        if not pool:
            yield f"workloadIdentityConfig.workloadPool: must be PROJECT.svc.id.goog, got {pool!r}"
        return
    mode = at(resource.props, "nodeConfig", "workloadMetadataConfig", "mode")
    if mode != "GKE_METADATA":
        yield f"nodeConfig.workloadMetadataConfig.mode: must be 'GKE_METADATA', got {mode!r}"


RULE = Rule(
    name="workload-identity",
    description="Pods get credentials by Workload Identity and cannot read those of their node.",
    applies=is_type(CLUSTER, NODE_POOL),
    check=_check,
    reference="CIS GKE Benchmark 5.2.2, 5.4.2 (Workload Identity, metadata server)",
)
