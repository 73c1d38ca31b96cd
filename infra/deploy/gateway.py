"""Arguments for the gateway of a region: its settings, and the models that it routes to."""

from collections.abc import Iterable, Mapping

import pulumi

from gke_inference.base.manifests import NAME_LABEL
from gke_inference.clients.callout import PORT as GATE_PORT
from gke_inference.gateway.inference_gateway import (
    InferenceGatewayArgs,
    RoutedCanaryArgs,
    RoutedModelArgs,
)
from gke_inference.gateway.settings import PeakArgs, PickersArgs, RoutingArgs
from gke_inference.serving.launcher.spec import GRPC_PORT
from gke_inference.serving.model_server import ModelServer
from infra.plan import RegionPlan, ServedModel
from infra.plan.backends import has_pool_relay
from infra.plan.clients import GATE
from infra.plan.front import FrontPlan
from infra.stack import Gateway, Routing


def gateway_args(
    front: FrontPlan,
    region: RegionPlan,
    backends: Iterable[str],
    servers: Mapping[str, ModelServer],
    subnetwork: pulumi.Input[str],
) -> InferenceGatewayArgs:
    """Return the arguments of a region's gateway, with the models of the region.

    Args:
        front: Endpoints of the stack.
        region: The region.
        backends: Names of the backends behind the gateway.
        servers: Servers of the region's models, by name.
        subnetwork: Subnet of the region.
    """
    gateway, names = front.gateway, region.names
    args = InferenceGatewayArgs(
        address_name=names.address(),
        forwarded_hops=gateway.forwarded_hops,
        exposure=gateway.regional_exposure,
        gateway_name=names.gateway(),
        log_percent=gateway.log_percent,
        models=routed_models(region, servers),
        namespace=region.namespace,
        picker_replicas=front.picker_replicas,
        pickers=pickers_args(gateway),
        project=region.project.id,
        region=region.name,
        router_replicas=front.router_replicas,
        subnetwork=subnetwork,
    )
    if backend_names := sorted(backends):
        args["backend_names"] = backend_names
    if region.gate is not None and (headers := region.gate.clients.credential_headers):
        args["credential_headers"] = list(headers)
    if region.gate is not None and (asked := region.gate.clients.asked_names):
        args["asked_gate"] = f"{GATE}.{region.names.gateway_namespace()}.svc:{GATE_PORT}"
        args["asked_models"] = list(asked)
    if region.batches is not None:
        args["has_batches"] = True
    if gateway.certificate is not None:
        args["certificate"] = gateway.certificate
    if gateway.fairness is not None:
        args["fairness_wait_seconds"] = gateway.fairness.max_wait_seconds
    if gateway.hostname is not None:
        args["hostname"] = gateway.hostname
    if gateway.is_published:
        args["is_published"] = True
    if gateway.has_global_access:
        args["global_access"] = True
    elif gateway.requests_per_minute is not None:
        args["requests_per_minute"] = gateway.requests_per_minute
    if gateway.port is not None:
        args["port"] = gateway.port
    return args


def pickers_args(gateway: Gateway) -> PickersArgs:
    """Return the arguments of the pickers of a stack."""
    args = PickersArgs(line=gateway.picker)
    if gateway.picker_drain_seconds is not None:
        args["drain_seconds"] = gateway.picker_drain_seconds
    if gateway.fairness is not None and gateway.fairness.max_queued is not None:
        args["max_queued"] = gateway.fairness.max_queued
    if gateway.fairness is not None and gateway.fairness.sessions is not None:
        args["orders_sessions"] = True
    if gateway.next_picker is not None:
        following = gateway.next_picker
        args["next"] = {"line": following.line, "percent": following.percent}
    return args


def routed_models(region: RegionPlan, servers: Mapping[str, ModelServer]) -> list[RoutedModelArgs]:
    """Return the models of a region for the gateway, each with its canary."""
    canaries = {other.version.of: other for other in region.served if other.version is not None}
    return [
        _routed(served, canaries.get(served.name), servers)
        for served in region.served
        if served.version is None
    ]


def _routed(
    served: ServedModel, canary: ServedModel | None, servers: Mapping[str, ModelServer]
) -> RoutedModelArgs:
    model, server = served.settings, servers[served.name]
    args = RoutedModelArgs(
        adapters=list(model.adapter_names(served.name)),
        engine=model.engine,
        further_models=list(model.further_models),
        has_live_adapters=model.live_adapters is not None,
        model_name=served.name,
        pool_name=served.object_name,
        priority=model.priority,
        selector=pool_selector(served, server.labels),
        target_port=server.port,
        task=model.task,
        timeout_seconds=model.timeout_seconds,
    )
    if model.grpc:
        args["grpc_port"] = GRPC_PORT
    if canary is not None and canary.version is not None:
        args["canary"] = RoutedCanaryArgs(
            engine=canary.settings.engine,
            percent=canary.version.percent,
            pool_name=canary.object_name,
            selector=servers[canary.name].labels,
            version=canary.version.name,
        )
    load = served.peak_load
    if load is not None:
        args["peak"] = PeakArgs(
            answer_tokens=load.answer_tokens,
            prompt_tokens=load.prompt_tokens,
            replicas=load.replicas,
            requests_per_second=load.requests_per_second,
        )
    if model.routing is not None:
        args["routing"] = _routing(model.routing)
    if model.disaggregated is not None:
        args["prefill_threshold_tokens"] = model.disaggregated.threshold_tokens
    return args


def _routing(routing: Routing) -> RoutingArgs:
    args = RoutingArgs(predicts_latency=routing.predicted_latency)
    if routing.sessions is not None:
        args["session_header"] = routing.sessions.header
        args["session_idle_seconds"] = routing.sessions.idle_seconds
    return args


def pool_selector(served: ServedModel, labels: dict[str, str]) -> dict[str, str]:
    """Return the label selector of a pool's replicas. A relay in the pool shares it."""
    return {NAME_LABEL: served.object_name} if has_pool_relay(served) else labels
