"""The only translator from a stack to the arguments of components and workloads.

Every function is pure: a part of a stack, and what other components gave, in; arguments out.
"""

from dataclasses import dataclass

import pulumi

from gke_inference.capacity.accelerator_pool import AcceleratorPoolArgs
from gke_inference.capacity.compute_class import ComputeClassArgs
from gke_inference.capacity.node_image_cache import NodeImageCacheArgs
from gke_inference.catalogue.rungs import RungArgs
from gke_inference.cluster.cluster import InferenceClusterArgs
from gke_inference.cluster.network import NetworkArgs, RegionRangesArgs
from gke_inference.cluster.settings import SystemPoolArgs
from gke_inference.namespace.serving_namespace import ServingNamespaceArgs
from gke_inference.operators.metrics_adapter import MetricsAdapterArgs
from gke_inference.storage.model_bucket import ModelBucketArgs
from infra.arguments.ingress import ingress_args
from infra.plan.capacity import class_names, rung_args, uses_tpu
from infra.plan.names import NAMESPACE, Names, pool_name
from infra.stack import ClusterSpread, Form, Platform, Region


@dataclass(frozen=True)
class Site:
    """One region of a platform, and what its cluster gave."""

    platform: Platform
    region: str
    cluster_name: pulumi.Input[str]
    node_service_account: pulumi.Input[str]
    image_cache: pulumi.Input[str] | None

    @property
    def location(self) -> str:
        """Where the cluster stands: the region, or the zone of a zonal cluster."""
        return location(self.platform, self.region)


def location(platform: Platform, region: str) -> str:
    """Return where a region's cluster stands: the region, or the first zone of a zonal cluster."""
    settings = platform.regions[region]
    return settings.zones[0] if settings.cluster is ClusterSpread.ZONAL else region


def network_args(platform: Platform) -> NetworkArgs:
    """Return the arguments of the one network."""
    return NetworkArgs(
        network_name=Names(platform).network(),
        project=platform.project,
        regions={name: _ranges(region) for name, region in platform.regions.items()},
    )


def cluster_args(
    platform: Platform,
    region: str,
    *,
    network: pulumi.Input[str],
    subnetwork: pulumi.Input[str],
    pods_range: pulumi.Input[str],
    services_range: pulumi.Input[str],
) -> InferenceClusterArgs:
    """Return the arguments of a region's cluster."""
    settings = platform.regions[region]
    names = Names(platform)
    args = InferenceClusterArgs(
        cluster_name=names.cluster(region),
        deletion_protection=platform.protection,
        labels={"env": platform.environment},
        location=location(platform, region),
        mode=settings.mode.value,
        network=network,
        node_account_id=names.node_account(region),
        node_zones=list(settings.zones),
        pods_range=pods_range,
        project=platform.project,
        release_channel=settings.release_channel.value,
        services_range=services_range,
        subnetwork=subnetwork,
    )
    if settings.authorized_networks:
        args["authorized_networks"] = dict(settings.authorized_networks)
    if platform.monitoring.traces is not None:
        args["traces"] = True
    if platform.images is not None and platform.images.is_attested:
        args["image_admission"] = True
    if settings.auto_provisioning_limits is not None:
        args["auto_provisioning_limits"] = dict(settings.auto_provisioning_limits)
    if settings.kms_key is not None:
        args["kms_key"] = settings.kms_key
    if settings.maintenance is not None:
        window = settings.maintenance
        args["maintenance"] = {
            "days": [day.value for day in window.days],
            "hours": window.hours,
            "start_hour": window.start_hour,
        }
    if settings.system_pool is not None:
        pool = settings.system_pool
        args["system_pool"] = SystemPoolArgs(
            machine_type=pool.machine_type, max_nodes=pool.max_nodes, min_nodes=pool.min_nodes
        )
    return args


def class_args(site: Site, capacity: str) -> dict[str, ComputeClassArgs]:
    """Return the arguments of a capacity's compute classes, by the name of the class."""
    settings = site.platform.capacity[capacity]
    made: dict[str, ComputeClassArgs] = {}
    for kind, name in class_names(site.platform, capacity, site.region).items():
        args = ComputeClassArgs(
            class_name=name,
            move_back=settings.move_back,
            node_service_account=site.node_service_account,
            rungs=rungs(site.platform, capacity, site.region, kind),
        )
        if settings.image_cache and site.image_cache is not None and settings.node_pools is None:
            args["image_cache"] = site.image_cache
        made[name] = args
    return made


def rungs(platform: Platform, capacity: str, region: str, kind: str = "any") -> list[RungArgs]:
    """Return a capacity's rungs in a region, of one kind or of `any`."""
    settings = platform.capacity[capacity]
    made: list[RungArgs] = []
    for at, rung in settings.rungs_in(region).items():
        if kind != "any" and rung.accelerator.is_tpu != (kind == "tpu"):
            continue
        args = rung_args(rung, region, platform.project)
        if settings.node_pools is not None:
            args["node_pools"] = [pool_name(capacity, at)]
        made.append(args)
    return made


def pool_args(site: Site, capacity: str) -> dict[str, AcceleratorPoolArgs]:
    """Return the arguments of the pools made beforehand for a capacity, by the name of the pool."""
    settings = site.platform.capacity[capacity]
    if settings.node_pools is None:
        return {}
    classes = class_names(site.platform, capacity, site.region)
    made: dict[str, AcceleratorPoolArgs] = {}
    for at, rung in settings.rungs_in(site.region).items():
        kind = "tpu" if rung.accelerator.is_tpu else "gpu"
        args = AcceleratorPoolArgs(
            cluster=site.cluster_name,
            compute_class=classes.get(kind, classes.get("any", capacity)),
            labels={"env": site.platform.environment},
            location=site.location,
            max_nodes=settings.node_pools.max_nodes,
            min_nodes=settings.node_pools.min_nodes,
            node_service_account=site.node_service_account,
            pool_name=pool_name(capacity, at),
            project=site.platform.project,
            rung=rung_args(rung, site.region, site.platform.project),
        )
        if settings.image_cache and site.image_cache is not None:
            args["image_cache"] = site.image_cache
        made[pool_name(capacity, at)] = args
    return made


def bucket_args(platform: Platform, region: str) -> dict[str, ModelBucketArgs]:
    """Return the arguments of a region's buckets: `models`, and `caches` where a TPU may serve."""
    names = Names(platform)
    storage = platform.storage
    models = ModelBucketArgs(
        bucket_name=names.bucket("models", region),
        folders=not storage.versioning,
        force_destroy=not platform.protection,
        labels={"env": platform.environment},
        location=region,
        project=platform.project,
        soft_delete_days=storage.soft_delete_days,
        versioning=storage.versioning,
    )
    zones = [zone for zone in storage.cache_zones if zone in platform.regions[region].zones]
    if zones:
        models["cache_zones"] = zones
    made = {"models": models}
    if any(uses_tpu(platform, model, region) for model in platform.models_in(region).values()):
        made["caches"] = ModelBucketArgs(
            bucket_name=names.bucket("caches", region),
            force_destroy=True,  # what is lost is compiled again
            labels={"env": platform.environment},
            location=region,
            project=platform.project,
            soft_delete_days=0,
        )
    return made


def image_cache_args(platform: Platform) -> NodeImageCacheArgs | None:
    """Return the arguments of the disk image for new nodes, where the stack has one."""
    cache = platform.storage.image_cache
    if cache is None:
        return None
    args = NodeImageCacheArgs(image_name=cache.name, project=cache.project or platform.project)
    if cache.archive is not None:
        args["raw_disk"] = cache.archive
    return args


def namespace_args(platform: Platform, region: str) -> ServingNamespaceArgs:
    """Return the arguments of the namespace; dual-container pods are privileged."""
    forms = {platform.form_of(model) for model in platform.models_in(region).values()}
    level = "privileged" if Form.DUAL_CONTAINER in forms else "baseline"
    args = ServingNamespaceArgs(namespace=NAMESPACE, pod_security=level)
    if platform.network_policies:
        args["ingress"] = ingress_args(platform, region)
    return args


def adapter_args(platform: Platform) -> MetricsAdapterArgs | None:
    """Return the arguments of a cluster's metrics adapter, where the stack wants one."""
    if not platform.monitoring.metrics_adapter:
        return None
    return MetricsAdapterArgs(
        has_access=True,  # infra.project grants it, once for all clusters
        project=platform.project,
        project_number=str(platform.project_number),
    )


def _ranges(region: Region) -> RegionRangesArgs:
    ranges = region.ranges
    return RegionRangesArgs(
        nodes_cidr=ranges.nodes,
        pods_cidr=ranges.pods,
        proxy_cidr=ranges.proxies,
        services_cidr=ranges.services,
    )
