"""Arguments for a gateway over all clusters: exported pools, the fleet and its Gateway."""

from collections.abc import Mapping

import pulumi

from gke_inference.front.exported_pools import ExportedPoolsArgs
from gke_inference.front.fleet import FleetArgs
from gke_inference.front.fleet_gateway import FleetGatewayArgs
from gke_inference.gateway.inference_gateway import RoutedModelArgs
from gke_inference.serving.model_server import ModelServer
from infra.arguments.models import picker_replicas, routed_models
from infra.plan import RegionPlan
from infra.plan.front import config_region, target_utilization_percent, with_gateway
from infra.plan.names import Names
from infra.stack import Platform


def exported_args(
    platform: Platform, region: RegionPlan, servers: Mapping[str, ModelServer]
) -> ExportedPoolsArgs:
    """Return the arguments of the pools that a region exports."""
    return ExportedPoolsArgs(
        drained=region.name in platform.gateway.drain,
        models=routed_models(region, servers),
        namespace=region.namespace,
        picker_replicas=picker_replicas(platform),
    )


def fleet_args(platform: Platform, clusters: Mapping[str, pulumi.Input[str]]) -> FleetArgs:
    """Return the arguments of the fleet of a platform's clusters.

    Args:
        platform: The stack.
        clusters: Id of the cluster of each region with models.
    """
    return FleetArgs(
        clusters={
            region: {
                "cluster_id": clusters[region],
                "location": region,
                "membership": Names(platform).cluster(region),
            }
            for region in with_gateway(platform)
        },
        config_cluster=config_region(platform) or "",
        labels={"env": platform.environment},
        project=platform.project,
        project_number=str(platform.project_number),
    )


def fleet_gateway_args(platform: Platform, models: list[RoutedModelArgs]) -> FleetGatewayArgs:
    """Return the arguments of the Gateway over all regions.

    Args:
        platform: The stack.
        models: Models of all regions.
    """
    gateway = platform.gateway
    args = FleetGatewayArgs(
        gateway_name=Names(platform).gateway(),
        log_percent=gateway.log_percent,
        models=models,
        namespace=Names(platform).namespace(),
        project=platform.project,
        regions=list(with_gateway(platform)),
        target_utilization_percent=target_utilization_percent(gateway),
    )
    if gateway.certificate is not None:
        args["certificate"] = gateway.certificate
    if gateway.hostname is not None:
        args["hostname"] = gateway.hostname
    if gateway.port is not None:
        args["port"] = gateway.port
    return args
