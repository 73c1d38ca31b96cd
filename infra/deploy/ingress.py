"""Arguments for ingress to serving pods: ranges, metrics collectors and peer models."""

from gke_inference.catalogue.engines import engine
from gke_inference.namespace.network_policies import AllowedIngressArgs
from gke_inference.serving.launcher.spec import GRPC_PORT
from infra.plan import RegionPlan


def ingress_args(region: RegionPlan, *, has_gateway: bool = True) -> AllowedIngressArgs:
    """Return the allowed ingress of the pods in a namespace.

    Args:
        region: Region of the cluster.
        has_gateway: Whether the Gateway and the services that it calls are in the namespace.
    """
    args = AllowedIngressArgs(
        metrics_namespace=region.metrics_namespace,
        proxies_cidr=region.settings.proxies,
    )
    if region.is_exported:
        args["other_proxies"] = list(region.other_proxies)
    if models := connected(region):
        args["connected_models"] = models
    if ports := metrics_ports(region):
        args["metrics_ports"] = ports
    if grpc := grpc_ports(region):
        args["grpc_ports"] = grpc
    if has_gateway and region.gate is not None:
        args["client_gate"] = True
        if region.gate.clients.replaced:
            args["asked_gate"] = True
        if region.gate.cache is not None:
            args["cached_answers"] = True
        if region.gate.guards:
            args["guards"] = True
    if region.streams:
        args["stream_workers"] = True
    if region.batches is not None:
        args["batch_workers"] = True
    return args


def connected(region: RegionPlan) -> list[str]:
    """Return the models whose replicas communicate with each other, by object name."""
    return [
        served.object_name
        for served in region.served
        if served.prefill is not None or served.capacity.spans_hosts
    ]


def grpc_ports(region: RegionPlan) -> dict[str, int]:
    """Return the port for gRPC of the models and canaries that have one, by object name."""
    return {served.object_name: GRPC_PORT for served in region.served if served.settings.grpc}


def metrics_ports(region: RegionPlan) -> dict[str, int]:
    """Return the port of the metrics of the models whose engine has one, by object name."""
    ports = {
        served.object_name: engine(served.settings.engine).metrics.port for served in region.served
    }
    return {name: port for name, port in ports.items() if port is not None}
