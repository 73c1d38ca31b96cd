"""Deploys a team's models on the platform of another stack, without loading cluster SDKs."""

from collections.abc import Mapping
from typing import Any

import pulumi

from gke_inference.gateway.model_routes import ModelRoutes, ModelRoutesArgs
from gke_inference.namespace.connected_models import ConnectedModels, ConnectedModelsArgs
from gke_inference.serving.model_server import ModelServer
from infra.deploy.delivery import deliver
from infra.deploy.described import described, placements
from infra.deploy.gateway import pickers_args, routed_models
from infra.deploy.ingress import connected, grpc_ports, metrics_ports
from infra.deploy.observability import observe
from infra.deploy.options import inside, protect_stateful
from infra.deploy.serving import open_models, serve
from infra.plan import Plan, RegionPlan, resolve
from infra.plan.front import FrontPlan
from infra.reading.platform_reference import Shared, SharedRegion
from infra.stack import Platform


def deploy_team(platform: Platform, shared: Shared, *, with_delivered: bool = False) -> None:
    """Register the models of a serving stack, their monitoring, and the outputs.

    Args:
        platform: The stack, with the settings of its platform.
        shared: Record of the platform.
        with_delivered: Whether to also register objects delivered from git, for previews.
    """
    plan = resolve(platform)
    protect_stateful(plan.project)
    for name, region in plan.regions.items():
        build_team_region(plan, region, shared.regions[name], with_delivered=with_delivered)
    observe(plan, [])
    for name, value in serving_exports(plan, shared).items():
        pulumi.export(name, value)


def serving_exports(plan: Plan, shared: Shared) -> dict[str, Any]:
    """Return the outputs of a serving stack by name."""
    platform = plan.platform
    addresses = {
        name: shared.regions[name].address for name, region in plan.regions.items() if region.served
    }
    endpoints = {
        name: platform.gateway.endpoint(address) for name, address in addresses.items() if address
    }
    return {
        "addresses": addresses,
        "catalogue": plan.front.catalogue_path,
        "endpoint": endpoints[min(endpoints)] if endpoints else "",
        "endpoints": endpoints,
        "models": {name: described(plan, name) for name in platform.models},
        "placements": {name: placements(plan.models[name]) for name in platform.models},
    }


def build_team_region(
    plan: Plan,
    region: RegionPlan,
    shared: SharedRegion,
    *,
    with_delivered: bool = False,
) -> None:
    """Build a team's models in a region, and their routes to the existing gateway.

    Args:
        plan: The stack, resolved with the settings of its platform.
        region: One of its regions.
        shared: The region in the platform's record.
        with_delivered: Whether to also build objects delivered from git.
    """
    if not region.served:
        return
    opts = inside(region, shared.kubeconfig)
    if deliver(plan.platform.delivery, region, opts) and not with_delivered:
        return
    buckets: dict[str, pulumi.Input[str]] = {
        role: region.names.bucket(role, region.name) for role in ("models", "caches")
    }
    open_models(region, buckets, opts)
    models, ports, grpc = connected(region), metrics_ports(region), grpc_ports(region)
    if region.has_network_policies and (models or ports or grpc):
        args = ConnectedModelsArgs(models=models, namespace=region.namespace)
        if ports:
            args["metrics_ports"] = ports
            args["metrics_namespace"] = region.metrics_namespace
        if grpc:
            args["grpc_ports"], args["proxies_cidr"] = grpc, region.settings.proxies
        ConnectedModels(f"{region.name}-connected", args, opts)
    servers = {served.name: serve(region, served, buckets, opts) for served in region.served}
    ModelRoutes(f"{region.name}-routes", model_routes_args(plan.front, region, servers), opts)


def model_routes_args(
    front: FrontPlan, region: RegionPlan, servers: Mapping[str, ModelServer]
) -> ModelRoutesArgs:
    """Return the arguments of a team's models behind the gateway of a region."""
    gateway, names = front.gateway, region.names
    args = ModelRoutesArgs(
        catalogue_path=front.catalogue_path,
        exposure=gateway.exposure,
        gateway_name=names.gateway(),
        gateway_namespace=names.gateway_namespace(),
        log_percent=gateway.log_percent,
        models=routed_models(region, servers),
        namespace=names.namespace(),
        picker_replicas=front.picker_replicas,
        pickers=pickers_args(gateway),
        router_replicas=front.router_replicas,
    )
    if gateway.fairness is not None:
        args["fairness_wait_seconds"] = gateway.fairness.max_wait_seconds
    if gateway.hostname is not None:
        args["hostname"] = gateway.hostname
    return args
