"""The translator of who may reach the pods that serve: ranges, collectors, and models as peers."""

from gke_inference.namespace.network_policies import AllowedIngressArgs
from infra.plan.capacity import spans_hosts
from infra.plan.names import object_name
from infra.stack import ClusterMode, Platform


def ingress_args(platform: Platform, region: str) -> AllowedIngressArgs:
    """Return who may reach the pods of the namespace."""
    settings = platform.regions[region]
    is_autopilot = settings.mode is ClusterMode.AUTOPILOT
    args = AllowedIngressArgs(
        metrics_namespace="gke-gmp-system" if is_autopilot else "gmp-system",
        proxies_cidr=settings.ranges.proxies,
    )
    connected = [
        object_name(name)
        for name, model in platform.models_in(region).items()
        if model.disaggregated is not None or spans_hosts(platform, model, region)
    ]
    if connected:
        args["connected_models"] = connected
    return args
