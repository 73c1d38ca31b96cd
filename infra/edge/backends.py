"""Wires backends: permissions of the relays, and the relay and fallbacks of each region."""

import pulumi

from gke_inference.backends.backend_access import BackendAccess
from gke_inference.backends.model_backends import ModelBackends
from gke_inference.backends.pool_fallback import PoolFallback
from gke_inference.cluster.workload_identity import WorkloadIdentity, principal
from infra.arguments import backends as assemble
from infra.plan import RegionPlan
from infra.plan.backends import RELAY, has_backends
from infra.plan.names import Names
from infra.stack import Platform


def grant_relay_access(platform: Platform, after: list[pulumi.Resource]) -> None:
    """Build the API key secrets and the roles of relays, if the stack has backends.

    Args:
        platform: The stack.
        after: The clusters: a project has no workload pool, and so no principals, before its first.
    """
    if not has_backends(platform):
        return
    member = principal(
        platform.project, str(platform.project_number), Names(platform).namespace(), RELAY
    )
    BackendAccess(
        "backends",
        assemble.access_args(platform, member),
        pulumi.ResourceOptions(depends_on=after),
    )


def relay_backends(
    platform: Platform,
    region: RegionPlan,
    inside: pulumi.ResourceOptions,
    gateway: pulumi.Resource,
) -> None:
    """Build the relay of a region, and the fallbacks of its models.

    Args:
        platform: The stack.
        region: The region.
        inside: Options with the cluster's Kubernetes provider and dependencies.
        gateway: The region's gateway, which routes and policies name.
    """
    if not has_backends(platform):
        return
    behind = pulumi.ResourceOptions.merge(inside, pulumi.ResourceOptions(depends_on=[gateway]))
    identity = WorkloadIdentity(
        f"{region.name}-{RELAY}-identity", assemble.relay_identity_args(platform), behind
    )
    opts = pulumi.ResourceOptions.merge(behind, pulumi.ResourceOptions(depends_on=[identity]))
    ModelBackends(f"{region.name}-{RELAY}", assemble.backends_args(platform, region), opts)
    for served in region.served:
        args = assemble.fallback_args(platform, region, served)
        if args is not None:
            PoolFallback(f"{region.name}-{args['relay_name']}", args, opts)
