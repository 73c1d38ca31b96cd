"""Arguments for ingress to serving pods: ranges, metrics collectors and peer models."""

from gke_inference.namespace.network_policies import AllowedIngressArgs
from infra.plan import RegionPlan
from infra.plan.batches import batches_in
from infra.plan.clients import cached_in, gated
from infra.plan.guardrails import has_guards
from infra.plan.streams import streams
from infra.stack import Platform


def ingress_args(
    platform: Platform, region: RegionPlan, *, has_gateway: bool = True
) -> AllowedIngressArgs:
    """Return the allowed ingress of the pods in a namespace.

    Args:
        platform: The stack.
        region: Region of the cluster.
        has_gateway: Whether the Gateway and the services that it calls are in the namespace.
    """
    settings = region.settings
    args = AllowedIngressArgs(
        metrics_namespace=region.metrics_namespace,
        proxies_cidr=settings.proxies,
    )
    if region.is_exported:
        args["other_proxies"] = [
            other.proxies for name, other in platform.regions.items() if name != region.name
        ]
    if models := connected(region):
        args["connected_models"] = models
    if has_gateway and gated(platform) is not None:
        args["client_gate"] = True
        if cached_in(platform, region.name) is not None:
            args["cached_answers"] = True
        if has_guards(platform):
            args["guards"] = True
    if any(stream.region == region.name for stream in streams(platform)):
        args["stream_workers"] = True
    if batches_in(platform, region.name) is not None:
        args["batch_workers"] = True
    return args


def connected(region: RegionPlan) -> list[str]:
    """Return the models whose replicas communicate with each other, by object name."""
    return [
        served.object_name
        for served in region.served
        if served.prefill is not None or served.capacity.spans_hosts
    ]
