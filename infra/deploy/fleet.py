"""A gateway over all clusters: exported pools, the fleet and its Gateway."""

from collections.abc import Mapping

import pulumi

from gke_inference.front.dns_front import DnsFront
from gke_inference.front.exported_pools import ExportedPoolsArgs
from gke_inference.front.fleet import Fleet, FleetArgs, FleetClusterArgs
from gke_inference.front.fleet_gateway import FleetGateway, FleetGatewayArgs
from gke_inference.gateway.inference_gateway import RoutedModelArgs
from gke_inference.serving.model_server import ModelServer
from infra.deploy.built_region import BuiltRegion
from infra.deploy.front import dns_front_args
from infra.deploy.gateway import pickers_args, routed_models
from infra.deploy.hostname import build_front_certificate
from infra.deploy.network import RegionNetwork
from infra.plan import Plan, RegionPlan
from infra.plan.front import FrontPlan
from infra.stack import Fleet as FleetSettings


def build_fleet(
    plan: Plan,
    networks: Mapping[str, RegionNetwork],
    built: Mapping[str, BuiltRegion],
    opts: pulumi.ResourceOptions,
) -> pulumi.Output[dict[str, str]] | None:
    """Build the gateway over all clusters, if it is the front. Return its address by region."""
    front, config = plan.front, plan.front.config_region
    exported = {name: each.exported for name, each in built.items() if each.exported is not None}
    if not front.gateway.has_fleet_gateway or config not in exported:
        return None
    ids = {name: built[name].cluster.cluster_id for name in exported}
    clusters: list[pulumi.Resource] = [built[name].cluster for name in exported]
    after = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=clusters))
    fleet = Fleet("fleet", fleet_args(plan, ids), after)
    models = {one["model_name"]: one for each in exported.values() for one in each.models}
    needed: list[pulumi.Resource] = [fleet, *(each.pools for each in exported.values())]
    needed += build_front_certificate(plan.front, plan.project, opts)
    gateway = FleetGateway(
        "front",
        fleet_gateway_args(plan, list(models.values())),
        pulumi.ResourceOptions.merge(
            exported[config].inside, pulumi.ResourceOptions(depends_on=needed)
        ),
    )
    addresses: dict[str, pulumi.Input[str]] = {
        region: gateway.addresses.apply(lambda found, region=region: found[region])
        for region in exported
    }
    record = dns_front_args(plan, addresses, networks[config].network)
    if record is not None:
        DnsFront("front-record", record, opts)
    return gateway.addresses


def exported_args(
    front: FrontPlan, region: RegionPlan, servers: Mapping[str, ModelServer]
) -> ExportedPoolsArgs:
    """Return the arguments of the pools that a region exports."""
    return ExportedPoolsArgs(
        drained=region.name in front.gateway.drain,
        models=routed_models(region, servers),
        namespace=region.namespace,
        picker_replicas=front.picker_replicas,
        pickers=pickers_args(front.gateway),
    )


def fleet_args(
    plan: Plan,
    clusters: Mapping[str, pulumi.Input[str]],
) -> FleetArgs:
    """Return the arguments of the fleet of a platform's clusters.

    Args:
        plan: The stack, resolved.
        clusters: Id of the cluster of each region with models.
    """
    front, project = plan.front, plan.project
    return FleetArgs(
        clusters={
            region: FleetClusterArgs(
                cluster_id=clusters[region],
                location=region,
                membership=plan.names.cluster(region),
            )
            for region in front.regions
        },
        config_cluster=front.config_region or "",
        labels=project.labels,
        project=project.id,
        project_number=project.number,
    )


def fleet_gateway_args(plan: Plan, models: list[RoutedModelArgs]) -> FleetGatewayArgs:
    """Return the arguments of the Gateway over all regions.

    Args:
        plan: The stack, resolved.
        models: Models of all regions.
    """
    front, gateway = plan.front, plan.front.gateway
    args = FleetGatewayArgs(
        gateway_name=plan.names.gateway(),
        log_percent=gateway.log_percent,
        models=models,
        namespace=plan.names.namespace(),
        project=plan.project.id,
        regions=list(front.regions),
        target_utilization_percent=(gateway.fleet or FleetSettings()).target_utilization_percent,
    )
    if gateway.certificate is not None:
        args["certificate"] = gateway.certificate
    if gateway.hostname is not None:
        args["hostname"] = gateway.hostname
    if gateway.port is not None:
        args["port"] = gateway.port
    return args
