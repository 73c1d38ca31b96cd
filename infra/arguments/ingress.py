"""The translator of who may reach the pods that serve: ranges, collectors, and models as peers."""

from gke_inference.namespace.network_policies import AllowedIngressArgs
from infra.plan import RegionPlan
from infra.plan.clients import gated
from infra.stack import ClusterMode, Platform


def ingress_args(
    platform: Platform, region: RegionPlan, *, has_gateway: bool = True
) -> AllowedIngressArgs:
    """Return who may reach the pods of a namespace.

    Args:
        platform: The stack.
        region: Region of the cluster.
        has_gateway: Whether the Gateway is in the namespace, and so is what it calls.
    """
    settings = region.settings
    is_autopilot = settings.mode is ClusterMode.AUTOPILOT
    args = AllowedIngressArgs(
        metrics_namespace="gke-gmp-system" if is_autopilot else "gmp-system",
        proxies_cidr=settings.proxies,
    )
    if models := connected(region):
        args["connected_models"] = models
    if has_gateway and gated(platform) is not None:
        args["client_gate"] = True
    return args


def connected(region: RegionPlan) -> list[str]:
    """Return the models whose replicas talk to each other, by the names of their objects."""
    return [
        served.object_name
        for served in region.served
        if served.prefill is not None or served.capacity.spans_hosts
    ]
