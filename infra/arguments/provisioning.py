"""Arguments for provisioning: network, clusters, capacity and buckets.

Every function is pure: it takes a part of a stack and the outputs of other components, and returns
arguments.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pulumi

from gke_inference.capacity.compact_placement import CompactPlacementArgs
from gke_inference.capacity.compute_class import ComputeClassArgs
from gke_inference.capacity.node_image_cache import NodeImageCacheArgs
from gke_inference.capacity.pool_settings import AcceleratorPoolArgs, AdditionalNetworkArgs
from gke_inference.catalogue.labels import TEAM_LABEL
from gke_inference.cluster.existing_cluster import ExistingClusterArgs
from gke_inference.cluster.network import NetworkArgs, RegionRangesArgs
from gke_inference.cluster.settings import InferenceClusterArgs, SystemPoolArgs
from gke_inference.namespace.serving_namespace import ServingNamespaceArgs
from gke_inference.operators.metrics_adapter import MetricsAdapterArgs
from gke_inference.storage.model_bucket import ModelBucketArgs
from infra.arguments.ingress import ingress_args
from infra.arguments.rungs import rungs
from infra.plan import RegionCapacity, RegionPlan
from infra.plan.folders import filestore_of, lustre_of
from infra.plan.front import has_fleet_gateway
from infra.plan.gke_version import asked
from infra.plan.names import Names, pool_name
from infra.plan.queue_places import queued_capacity
from infra.stack import Form, Platform, Ranges


@dataclass(frozen=True)
class Site:
    """One region of a platform, with the outputs of its cluster."""

    platform: Platform
    region: RegionPlan
    cluster_name: pulumi.Input[str]
    node_service_account: pulumi.Input[str]
    image_cache: pulumi.Input[str] | None
    placements: Mapping[str, pulumi.Input[str]]
    """Placement policies by capacity, of those with compact nodes."""
    additional_networks: list[AdditionalNetworkArgs] = field(
        default_factory=list[AdditionalNetworkArgs]
    )
    """Networks of the interfaces of nodes with TCPX or TCPXO."""


@dataclass(frozen=True)
class RegionNetwork:
    """The network of one region, for its cluster and gateway."""

    network: pulumi.Input[str]
    """Path of the VPC."""
    subnetwork: pulumi.Input[str]
    """Subnet of the nodes: a name, or the path of an existing subnet."""
    pods_range: pulumi.Input[str] | None
    """Name of the secondary range for pods, or None for an existing cluster."""
    services_range: pulumi.Input[str] | None
    """Name of the secondary range for services, or None for an existing cluster."""
    published: pulumi.Input[str] | None = None
    """Private Service Connect subnet, or None if nothing is published."""
    interfaces: tuple[pulumi.Input[list[str]], pulumi.Input[list[str]]] | None = None
    """Names of the networks of interfaces and of their subnets, or None if no node has them."""
    after: tuple[pulumi.Resource, ...] = ()
    """Dependencies of the cluster."""


def network_args(platform: Platform) -> NetworkArgs | None:
    """Return the arguments of the network, if the stack creates it."""
    if platform.existing.network is not None:
        return None
    args = NetworkArgs(
        network_name=Names(platform).network(),
        project=platform.project,
        regions={
            name: _ranges(region.ranges)
            for name, region in platform.regions.items()
            if region.ranges is not None
        },
    )
    if platform.mtu is not None:
        args["mtu"] = platform.mtu
    if has_fleet_gateway(platform.gateway):
        args["proxies"] = "global"
    return args


def cluster_args(
    platform: Platform,
    region: RegionPlan,
    *,
    network: pulumi.Input[str],
    subnetwork: pulumi.Input[str],
    pods_range: pulumi.Input[str],
    services_range: pulumi.Input[str],
) -> InferenceClusterArgs:
    """Return the arguments of a region's cluster."""
    settings = region.settings
    args = InferenceClusterArgs(
        cluster_name=region.cluster_name,
        deletion_protection=platform.protection,
        labels={"env": platform.environment},
        location=region.location,
        mode=settings.mode.value,
        network=network,
        node_account_id=Names(platform).node_account(region.name),
        min_version=asked(region),
        node_zones=list(settings.zones),
        pods_range=pods_range,
        project=platform.project,
        release_channel=settings.release_channel.value,
        services_range=services_range,
        subnetwork=subnetwork,
    )
    if settings.authorized_networks:
        args["authorized_networks"] = dict(settings.authorized_networks)
    _turn_on(args, platform, region)
    if settings.auto_provisioning_limits is not None:
        args["auto_provisioning_limits"] = dict(settings.auto_provisioning_limits)
    if settings.kms_key is not None:
        args["kms_key"] = settings.kms_key
    if settings.data_key is not None:
        args["boot_disk_key"] = settings.data_key
    if platform.holds_upgrades(region.name):
        args["hold_upgrades"] = True
    window = platform.maintenance_of(region.name)
    args["maintenance"] = {
        "days": [day.value for day in window.days],
        "hours": window.hours,
        "start_hour": window.start_hour,
    }
    if settings.system_pool is not None:
        pool = settings.system_pool
        args["system_pool"] = SystemPoolArgs(
            machine_type=pool.machine_type,
            max_nodes=pool.max_nodes,
            min_nodes=pool.min_nodes,
        )
        if pool.boot_disk_type is not None:
            args["system_pool"]["disk_type"] = pool.boot_disk_type.value
        if pool.fallback:
            args["system_pool"]["fallback"] = list(pool.fallback)
    return args


def _turn_on(args: InferenceClusterArgs, platform: Platform, region: RegionPlan) -> None:
    """Turn on the parts of a cluster that something in the region needs."""
    if platform.monitoring.traces is not None:
        args["traces"] = True
    if filestore_of(platform, region.name) is not None:
        args["shared_folders"] = True
    if lustre_of(platform, region.name) is not None:
        args["lustre"] = True
    if region.has_ray_clusters:
        args["ray_operator"] = True
    if region.interface_network is not None:
        args["multi_networking"] = True
    if platform.images is not None and platform.images.is_attested:
        args["image_admission"] = True


def placement_args(platform: Platform, region: RegionPlan) -> dict[str, CompactPlacementArgs]:
    """Return the arguments of a region's placement policies, by capacity."""
    names = Names(platform)
    return {
        capacity.name: CompactPlacementArgs(
            policy_name=names.placement(capacity.name),
            project=platform.project,
            region=region.name,
        )
        for capacity in region.used_capacity
        if capacity.is_compact
    }


def class_args(site: Site, capacity: RegionCapacity) -> dict[str, ComputeClassArgs]:
    """Return the arguments of a capacity's compute classes, by class name."""
    settings = capacity.settings
    made: dict[str, ComputeClassArgs] = {}
    if capacity.name in queued_capacity(site.platform):
        return made  # its nodes are created for a ProvisioningRequest, never for a pod
    for kind, name in capacity.classes.items():
        args = ComputeClassArgs(
            class_name=name,
            move_back=settings.move_back,
            node_service_account=site.node_service_account,
            rungs=rungs(capacity, kind),
        )
        if settings.image_cache and site.image_cache is not None and settings.node_pools is None:
            args["image_cache"] = site.image_cache
        if site.region.settings.data_key is not None:
            args["boot_disk_key"] = site.region.settings.data_key
        if capacity.name in site.placements:
            args["placement_policy"] = site.placements[capacity.name]
        made[name] = args
    return made


def pool_args(site: Site, capacity: RegionCapacity) -> dict[str, AcceleratorPoolArgs]:
    """Return the arguments of a capacity's node pools, by pool name."""
    settings = capacity.settings
    if settings.node_pools is None:
        return {}
    classes = capacity.classes
    made: dict[str, AcceleratorPoolArgs] = {}
    for at, rung in capacity.arguments.items():
        args = AcceleratorPoolArgs(
            cluster=site.cluster_name,
            compute_class=classes.get(capacity.rungs[at].kind, classes.get("any", capacity.name)),
            labels={"env": site.platform.environment},
            location=site.region.location,
            max_nodes=settings.node_pools.max_nodes,
            max_surge=settings.node_pools.max_surge,
            max_unavailable=settings.node_pools.max_unavailable,
            min_nodes=settings.node_pools.min_nodes,
            node_service_account=site.node_service_account,
            pool_name=pool_name(capacity.name, at),
            project=site.platform.project,
            rung=rung,
        )
        if at in capacity.interface_rungs:
            args["additional_networks"] = site.additional_networks
        if capacity.name in site.platform.claimed_capacity():
            args["device_claims"] = True
        if capacity.name in queued_capacity(site.platform):
            del args["compute_class"]
            args["queued"] = True
        if settings.image_cache and site.image_cache is not None:
            args["image_cache"] = site.image_cache
        if site.region.settings.data_key is not None:
            args["boot_disk_key"] = site.region.settings.data_key
        if capacity.name in site.placements:
            args["placement_policy"] = site.placements[capacity.name]
        made[pool_name(capacity.name, at)] = args
    return made


def bucket_args(platform: Platform, region: RegionPlan) -> dict[str, ModelBucketArgs]:
    """Return the arguments of the buckets that a region creates: `models`, and `caches` if needed.

    An existing bucket for weights is not included.
    """
    names = Names(platform)
    storage = platform.storage
    models = ModelBucketArgs(
        bucket_name=names.bucket("models", region.name),
        folders=not storage.versioning,
        force_destroy=not platform.protection,
        labels={"env": platform.environment},
        location=region.name,
        project=platform.project,
        soft_delete_days=storage.soft_delete_days,
        versioning=storage.versioning,
    )
    zones = [zone for zone in storage.cache_zones if zone in region.settings.zones]
    if zones:
        models["cache_zones"] = zones
        models["cache_days"] = storage.cache_days
        models["cache_on_write"] = storage.cache_on_write
    made = {"models": models} if region.settings.existing.bucket is None else {}
    if region.served:
        made["caches"] = _caches_args(platform, region, None)
    for team in platform.teams:
        made[f"caches-{team}"] = _caches_args(platform, region, team)
    if region.settings.data_key is not None:
        for args in made.values():
            args["kms_key"] = region.settings.data_key
    return made


def _caches_args(platform: Platform, region: RegionPlan, team: str | None) -> ModelBucketArgs:
    """Return the arguments of the bucket for compiled programs, which teams never share."""
    labels = {"env": platform.environment}
    return ModelBucketArgs(
        bucket_name=Names(platform).bucket("caches", region.name, team),
        force_destroy=True,  # lost files are compiled again
        labels=labels if team is None else labels | {TEAM_LABEL: team},
        location=region.name,
        project=platform.project,
        soft_delete_days=0,
    )


def image_cache_args(platform: Platform) -> NodeImageCacheArgs | None:
    """Return the arguments of the disk image for new nodes, if the stack has one."""
    cache = platform.storage.image_cache
    if cache is None:
        return None
    args = NodeImageCacheArgs(image_name=cache.name, project=cache.project or platform.project)
    if cache.archive is not None:
        args["raw_disk"] = cache.archive
    return args


def namespace_args(
    platform: Platform, region: RegionPlan, chips: Mapping[str, int]
) -> ServingNamespaceArgs:
    """Return the arguments of the namespace.

    Dual-container pods are privileged, RDMA locks more memory than `baseline` allows, and TCPX and
    TCPXO mount folders of the node.

    Args:
        platform: The stack.
        region: Region of the cluster.
        chips: Maximum number of chips that its pods may request, by kind; empty for no limit.
    """
    forms = {platform.form_of(served.settings) for served in region.served}
    args = ServingNamespaceArgs(namespace=Names(platform).namespace())
    if platform.existing.namespace is None:
        has_interfaces = region.has_rdma or region.interface_network is not None
        is_privileged = Form.DUAL_CONTAINER in forms or has_interfaces
        level = "privileged" if is_privileged else "baseline"
        args["pod_security"] = level
        if chips and not region.is_shared:  # otherwise, teams have quotas
            args["gpu_chips"], args["tpu_chips"] = chips["gpu"], chips["tpu"]
    else:
        args["existing"] = True
    if region.settings.existing.cluster is None and region.settings.chip_limits.enabled:
        args["closes_default"] = True
    if platform.network_policies:
        args["ingress"] = ingress_args(platform, region)
    return args


def adapter_args(platform: Platform) -> MetricsAdapterArgs | None:
    """Return the arguments of a cluster's metrics adapter, if the stack installs it."""
    if not platform.monitoring.metrics_adapter:
        return None
    return MetricsAdapterArgs(
        has_access=True,  # infra.project grants it, once for all clusters
        project=platform.project,
        project_number=str(platform.project_number),
    )


def existing_cluster_args(platform: Platform, region: RegionPlan) -> ExistingClusterArgs | None:
    """Return the arguments of a region's existing cluster."""
    cluster = region.settings.existing.cluster
    if cluster is None:
        return None
    return ExistingClusterArgs(
        cluster=cluster, node_account_id=Names(platform).node_account(region.name)
    )


def _ranges(ranges: Ranges) -> RegionRangesArgs:
    args = RegionRangesArgs(
        nodes_cidr=ranges.nodes,
        pods_cidr=ranges.pods,
        proxy_cidr=ranges.proxies,
        services_cidr=ranges.services,
    )
    if ranges.published is not None:
        args["published_cidr"] = ranges.published
    return args
