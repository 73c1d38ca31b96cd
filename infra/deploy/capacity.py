"""Capacity of a region: node pools, compute classes, placement policies and the node image."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pulumi

from gke_inference.capacity.accelerator_pool import AcceleratorPool
from gke_inference.capacity.calendar_reservation import CalendarReservationArgs
from gke_inference.capacity.compact_placement import CompactPlacementArgs
from gke_inference.capacity.compute_class import ComputeClass, ComputeClassArgs
from gke_inference.capacity.compute_class_rules import is_spot_only
from gke_inference.capacity.node_image_cache import NodeImageCacheArgs
from gke_inference.capacity.pool_settings import AcceleratorPoolArgs, AdditionalNetworkArgs
from infra.plan import RegionCapacity, RegionPlan
from infra.plan.capacity import rungs
from infra.plan.names import pool_name
from infra.plan.storage import ImageCachePlan


@dataclass(frozen=True)
class Site:
    """One region of a platform, with the outputs of its cluster."""

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


def build_capacity(
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
            for name, args in pool_args(site, capacity).items()
        ]
        behind = pulumi.ResourceOptions.merge(inside, pulumi.ResourceOptions(depends_on=pools))
        resources: list[pulumi.Resource] = [
            ComputeClass(f"{site.region.name}-{name}", args, behind)
            for name, args in class_args(site, capacity).items()
        ]
        classes += resources or pools  # a pool with queued provisioning has no class
    return classes


def placement_args(region: RegionPlan) -> dict[str, CompactPlacementArgs]:
    """Return the arguments of a region's placement policies, by capacity."""
    return {
        capacity.name: CompactPlacementArgs(
            policy_name=region.names.placement(capacity.name),
            project=region.project.id,
            region=region.name,
        )
        for capacity in region.used_capacity
        if capacity.is_compact
    }


def reservation_args(region: RegionPlan) -> dict[str, CalendarReservationArgs]:
    """Return the arguments of the reservations that a region requests, by their name."""
    return {
        str(rung.reservation): CalendarReservationArgs(
            project=region.project.id, rung=capacity.arguments[at]
        )
        for capacity in region.used_capacity
        for at, rung in capacity.reserved_rungs.items()
    }


def class_args(site: Site, capacity: RegionCapacity) -> dict[str, ComputeClassArgs]:
    """Return the arguments of a capacity's compute classes, by class name."""
    settings = capacity.settings
    classes: dict[str, ComputeClassArgs] = {}
    if capacity.is_queued:
        return classes  # its nodes are created for a ProvisioningRequest, never for a pod
    for kind, name in capacity.classes.items():
        args = ComputeClassArgs(
            class_name=name,
            move_back=settings.move_back,
            node_service_account=site.node_service_account,
            rungs=rungs(capacity, kind),
        )
        if is_spot_only(capacity.rungs.values()) and settings.node_pools is None:
            args["spot_only_reason"] = "the stack lists Spot alone"
        if settings.nodes is not None and settings.node_pools is None:
            args["nodes"] = settings.nodes
        if settings.image_cache and site.image_cache is not None and settings.node_pools is None:
            args["image_cache"] = site.image_cache
        if site.region.settings.data_key is not None:
            args["boot_disk_key"] = site.region.settings.data_key
        if capacity.name in site.placements:
            args["placement_policy"] = site.placements[capacity.name]
        classes[name] = args
    return classes


def pool_args(site: Site, capacity: RegionCapacity) -> dict[str, AcceleratorPoolArgs]:
    """Return the arguments of a capacity's node pools, by pool name."""
    settings = capacity.settings
    if settings.node_pools is None:
        return {}
    classes = capacity.classes
    pools: dict[str, AcceleratorPoolArgs] = {}
    for at, rung in capacity.arguments.items():
        args = AcceleratorPoolArgs(
            cluster=site.cluster_name,
            compute_class=classes.get(capacity.rungs[at].kind, classes.get("any", capacity.name)),
            labels=site.region.project.labels,
            location=site.region.location,
            max_nodes=settings.node_pools.max_nodes,
            min_nodes=settings.node_pools.min_nodes,
            node_service_account=site.node_service_account,
            pool_name=pool_name(capacity.name, at),
            project=site.region.project.id,
            rung=rung,
        )
        if settings.node_pools.blue_green is None:
            args["max_surge"] = settings.node_pools.max_surge
            args["max_unavailable"] = settings.node_pools.max_unavailable
        else:
            args["blue_green"] = settings.node_pools.blue_green
        if settings.nodes is not None:
            args["nodes"] = settings.nodes
        if at in capacity.interface_rungs:
            args["additional_networks"] = site.additional_networks
        if capacity.is_claimed:
            args["device_claims"] = True
        if capacity.is_queued:
            del args["compute_class"]
            args["queued"] = True
        if settings.image_cache and site.image_cache is not None:
            args["image_cache"] = site.image_cache
        if site.region.settings.data_key is not None:
            args["boot_disk_key"] = site.region.settings.data_key
        if capacity.name in site.placements:
            args["placement_policy"] = site.placements[capacity.name]
        pools[pool_name(capacity.name, at)] = args
    return pools


def image_cache_args(cache: ImageCachePlan | None) -> NodeImageCacheArgs | None:
    """Return the arguments of the disk image for new nodes, if the stack has one."""
    if cache is None:
        return None
    args = NodeImageCacheArgs(image_name=cache.name, project=cache.project)
    if cache.archive is not None:
        args["raw_disk"] = cache.archive
    return args
