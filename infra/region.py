"""Wires one region: cluster, buckets, capacity, models and the gateway in front of them."""

from dataclasses import dataclass
from typing import Final

import pulumi

from gke_inference.capacity.accelerator_pool import AcceleratorPool
from gke_inference.capacity.compact_placement import CompactPlacement
from gke_inference.capacity.compute_class import ComputeClass
from gke_inference.cluster.cluster import InferenceCluster
from gke_inference.cluster.existing_cluster import ExistingCluster
from gke_inference.front.exported_pools import ExportedPools
from gke_inference.front.published_gateway import PublishedGateway
from gke_inference.gateway.certificate import GatewayCertificate
from gke_inference.gateway.inference_gateway import InferenceGateway, RoutedModelArgs
from gke_inference.namespace.serving_namespace import ServingNamespace
from gke_inference.operators.cluster_kinds import ClusterKinds, ClusterKindsArgs
from gke_inference.operators.group_operator import (
    LeaderWorkerSetOperator,
    LeaderWorkerSetOperatorArgs,
)
from gke_inference.operators.metrics_adapter import MetricsAdapter
from gke_inference.serving.ray.scaler import RayScaler, RayScalerArgs
from gke_inference.storage.fuse_volume import FuseVolume
from gke_inference.storage.lustre_folder import LustreFolder
from gke_inference.storage.model_bucket import ModelBucket
from gke_inference.storage.shared_folder import SharedFolder
from infra.arguments import front as assemble_front
from infra.arguments import models as assemble_models
from infra.arguments import provisioning as assemble
from infra.arguments.devices import additional_networks
from infra.arguments.fleet import exported_args
from infra.arguments.folders import lustre_folder_args, shared_folder_args, weights_volume_args
from infra.arguments.hostname import certificate_args
from infra.arguments.provisioning import RegionNetwork, Site
from infra.arguments.sharing import route_sources
from infra.devices import connect_interfaces, drive_devices
from infra.edge.backends import relay_backends
from infra.edge.batches import answer_batches
from infra.edge.clients import build_client_gate
from infra.edge.guardrails import guard_region
from infra.edge.personal import personalize_images
from infra.edge.streams import stream_to_models
from infra.images import let_nodes_pull
from infra.jobs.queues import build_queues
from infra.options.inside import inside as options_inside
from infra.plan import RegionPlan
from infra.plan.names import Names
from infra.quota.chip_limits import chip_limits
from infra.serving import open_models, serve
from infra.sharing import share
from infra.stack import ClusterMode, Platform

Cluster = InferenceCluster | ExistingCluster
"""A cluster, created or existing; both have the same outputs."""


_KINDS: Final = ("compute_class", "pod_monitoring", "rules")
_GATEWAY_KINDS: Final = (
    "gateway",
    "gateway_backend_policy",
    "gateway_health_check",
    "gateway_routing_extension",
    "gateway_traffic_extension",
    "http_route",
    "inference_pool",
)
"""GKE's own kinds, those of a gateway apart."""


@dataclass(frozen=True)
class ExportedModels:
    """Models of a region, for the gateway over all clusters."""

    pools: ExportedPools
    models: list[RoutedModelArgs]
    inside: pulumi.ResourceOptions
    """Options of objects in the region's cluster."""


@dataclass(frozen=True)
class BuiltRegion:
    """Outputs of a region."""

    cluster: Cluster
    gateway: InferenceGateway | None
    exported: ExportedModels | None = None
    """Models that the gateway over all clusters imports, instead of a gateway of the region."""
    published: PublishedGateway | None = None
    """The service attachment that other networks and a global front connect to."""


def build_region(
    platform: Platform,
    region: RegionPlan,
    network: RegionNetwork,
    image_cache: pulumi.Input[str] | None,
    after: list[pulumi.Resource],
) -> BuiltRegion:
    """Build a region.

    Args:
        platform: The stack.
        region: The region, resolved.
        network: The network as the region takes it.
        image_cache: Disk image for the nodes of capacity that asks for it.
        after: Dependencies, deleted later.
    """
    opts = pulumi.ResourceOptions(depends_on=after)
    placements = {
        name: CompactPlacement(f"{region.name}-{name}-placement", args, opts)
        for name, args in assemble.placement_args(platform, region).items()
    }
    cluster = _build_cluster(platform, region, network, _before(placements, opts))
    buckets: dict[str, pulumi.Input[str]] = {
        role: ModelBucket(f"{region.name}-{role}", args, opts).bucket_name
        for role, args in assemble.bucket_args(platform, region).items()
    }
    buckets.setdefault("models", Names(platform).bucket("models", region.name))
    inside = options_inside(platform, region, cluster.kubeconfig, [cluster])
    inside = _after_kinds(region, inside)
    interfaces = connect_interfaces(region, network, inside)
    site = Site(
        additional_networks=additional_networks(region, network),
        cluster_name=cluster.cluster_name,
        image_cache=image_cache,
        placements={name: each.policy_name for name, each in placements.items()},
        node_service_account=cluster.node_service_account,
        platform=platform,
        region=region,
    )
    adapter = assemble.adapter_args(platform)
    if adapter is not None and region.has_gateway:
        MetricsAdapter(f"{region.name}-metrics-adapter", adapter, inside)
    capacity = _build_capacity(site, [cluster, *interfaces], inside)
    capacity += let_nodes_pull(platform, region.name, cluster.node_service_account, opts)
    if region.has_groups:  # models are created after it, and deleted before it
        operator = LeaderWorkerSetOperatorArgs()
        capacity.append(LeaderWorkerSetOperator(f"{region.name}-groups", operator, inside))
    capacity += drive_devices(platform, region, inside)  # as groups
    teams = build_queues(region, inside, capacity)
    serving = _build_serving(
        platform,
        region,
        buckets,
        network,
        capacity,
        _build_certificate(platform, region, opts),
        teams,
        inside,
    )
    if isinstance(serving, ExportedModels):
        return BuiltRegion(cluster=cluster, gateway=None, exported=serving)
    return BuiltRegion(
        cluster=cluster,
        gateway=serving,
        published=_publish(platform, region, network, serving, inside),
    )


def _before(
    placements: dict[str, CompactPlacement], opts: pulumi.ResourceOptions
) -> pulumi.ResourceOptions:
    """Return options of a cluster, whose nodes must be gone before their policies are deleted."""
    behind = pulumi.ResourceOptions(depends_on=[*placements.values()])
    return pulumi.ResourceOptions.merge(opts, behind)


def _build_cluster(
    platform: Platform,
    region: RegionPlan,
    network: RegionNetwork,
    opts: pulumi.ResourceOptions,
) -> Cluster:
    """Build the cluster of a region, or reference the existing one."""
    existing = assemble.existing_cluster_args(platform, region)
    if existing is not None:
        return ExistingCluster(region.name, existing, opts)
    if network.pods_range is None or network.services_range is None:
        raise ValueError(f"{region.name} must have ranges for pods and services")
    args = assemble.cluster_args(
        platform,
        region,
        network=network.network,
        subnetwork=network.subnetwork,
        pods_range=network.pods_range,
        services_range=network.services_range,
    )
    behind = pulumi.ResourceOptions(depends_on=[*network.after])
    return InferenceCluster(region.name, args, pulumi.ResourceOptions.merge(opts, behind))


def _after_kinds(region: RegionPlan, inside: pulumi.ResourceOptions) -> pulumi.ResourceOptions:
    """Return options for objects that are created once a new cluster has GKE's own kinds.

    On a standard cluster, GKE installs them while it creates the first node pool.
    """
    is_new = region.settings.existing.cluster is None
    if region.settings.mode is not ClusterMode.AUTOPILOT or not is_new:
        return inside
    args = ClusterKindsArgs(kinds=[*_KINDS, *(_GATEWAY_KINDS if region.has_gateway else ())])
    made = ClusterKinds(f"{region.name}-kinds", args, inside)
    behind = pulumi.ResourceOptions(depends_on=[made])
    return pulumi.ResourceOptions.merge(inside, behind)


def _build_certificate(
    platform: Platform, region: RegionPlan, opts: pulumi.ResourceOptions
) -> list[pulumi.Resource]:
    """Build the certificate of the region's gateway, if the stack issues one."""
    args = certificate_args(platform, region.name)
    if args is None or not region.has_gateway or region.is_exported:
        return []  # a gateway over all clusters has one certificate for all of them
    return [GatewayCertificate(f"{region.name}-certificate", args, opts)]


def _publish(
    platform: Platform,
    region: RegionPlan,
    network: RegionNetwork,
    gateway: InferenceGateway | None,
    inside: pulumi.ResourceOptions,
) -> PublishedGateway | None:
    """Publish the region's gateway, if configured."""
    if gateway is None:
        return None
    args = assemble_front.published_args(
        platform, region.name, gateway.gateway_id, network.published
    )
    if args is None:
        return None
    behind = pulumi.ResourceOptions(depends_on=[gateway])
    opts = pulumi.ResourceOptions.merge(inside, behind)
    return PublishedGateway(f"{region.name}-published", args, opts)


def _build_capacity(
    site: Site, after: list[pulumi.Resource], inside: pulumi.ResourceOptions
) -> list[pulumi.Resource]:
    """Build the node pools and compute classes. Pools are created after others, such as a cluster.

    Networks must be in the cluster before the nodes that have interfaces on them.
    """
    classes: list[pulumi.Resource] = []
    for capacity in site.region.used_capacity:
        pools: list[pulumi.Resource] = [
            AcceleratorPool(
                f"{site.region.name}-{name}", args, pulumi.ResourceOptions(depends_on=after)
            )
            for name, args in assemble.pool_args(site, capacity).items()
        ]
        behind = pulumi.ResourceOptions.merge(inside, pulumi.ResourceOptions(depends_on=pools))
        made: list[pulumi.Resource] = [
            ComputeClass(f"{site.region.name}-{name}", args, behind)
            for name, args in assemble.class_args(site, capacity).items()
        ]
        classes += made or pools  # a pool with queued provisioning has no class
    return classes


def _build_folders(
    platform: Platform,
    region: RegionPlan,
    network: RegionNetwork,
    opts: pulumi.ResourceOptions,
) -> list[pulumi.Resource]:
    """Build the shared folder of the region, on Filestore or Lustre, if it has one."""
    made: list[pulumi.Resource] = []
    filestore = shared_folder_args(platform, region, network.network)
    if filestore is not None:
        made.append(SharedFolder(f"{region.name}-shared-folder", filestore, opts))
    lustre = lustre_folder_args(platform, region, network.network)
    if lustre is not None:
        made.append(LustreFolder(f"{region.name}-lustre-folder", lustre, opts))
    return made


def _build_serving(
    platform: Platform,
    region: RegionPlan,
    buckets: dict[str, pulumi.Input[str]],
    network: RegionNetwork,
    capacity: list[pulumi.Resource],
    certificates: list[pulumi.Resource],
    teams: list[pulumi.Resource],
    inside: pulumi.ResourceOptions,
) -> InferenceGateway | ExportedModels | None:
    """Build the namespace, its models and the gateway, if any model runs in the region.

    If serving stacks deploy the models, build the namespaces of their teams instead.
    """
    if not region.has_gateway:
        return None
    limited = assemble.namespace_args(platform, region, chip_limits(region))
    namespace = ServingNamespace(f"{region.name}-namespace", limited, inside)
    after_namespace = pulumi.ResourceOptions(depends_on=[namespace])
    needed: list[pulumi.Resource] = [namespace, *capacity]
    after_teams = pulumi.ResourceOptions(depends_on=[namespace, *teams, *network.after])
    folders = pulumi.ResourceOptions.merge(inside, after_teams)
    needed += _build_folders(platform, region, network, folders)
    volume = weights_volume_args(platform, region, buckets["models"])
    if volume is not None:
        opts = pulumi.ResourceOptions.merge(inside, after_namespace)
        needed.append(FuseVolume(f"{region.name}-model-bucket", volume, opts))
    behind = pulumi.ResourceOptions.merge(inside, pulumi.ResourceOptions(depends_on=needed))
    if region.is_shared:
        share(platform, region, buckets, inside)
    else:
        gate_opts = pulumi.ResourceOptions.merge(inside, after_namespace)
        open_models(platform, region, buckets, gate_opts)
    if region.has_ray_clusters:  # their sets are created after it, and deleted before it
        scaler = RayScalerArgs(namespace=region.namespace)
        opts = pulumi.ResourceOptions.merge(inside, after_namespace)
        needed.append(RayScaler(f"{region.name}-ray-scaler", scaler, opts))
    servers = {
        served.name: serve(platform, region, served, buckets, behind) for served in region.served
    }
    if region.is_exported:
        exported = exported_args(platform, region, servers)
        opts = pulumi.ResourceOptions.merge(inside, after_namespace)
        pools = ExportedPools(f"{region.name}-pools", exported, opts)
        return ExportedModels(pools, exported["models"], inside)
    args = assemble_models.gateway_args(platform, region, servers, network.subnetwork)
    if sources := route_sources(platform):
        args["route_sources"] = sources
    gateway = InferenceGateway(
        f"{region.name}-gateway",
        args,
        pulumi.ResourceOptions.merge(
            inside, pulumi.ResourceOptions(depends_on=[namespace, *certificates])
        ),
    )
    guards = guard_region(platform, region, inside, gateway, after_namespace)
    build_client_gate(platform, region, network, inside, gateway, guards)
    relay_backends(platform, region, inside, gateway)
    stream_to_models(platform, region, gateway.address, inside, [namespace, gateway])
    answer_batches(platform, region, gateway.address, buckets, inside, [namespace, gateway, *teams])
    after = [gateway, *needed]
    personalize_images(platform, region, buckets["models"], gateway.address, inside, after)
    return gateway
