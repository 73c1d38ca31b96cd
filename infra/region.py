"""Wires one region: cluster, buckets, capacity, models and the gateway in front of them."""

from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as kubernetes

from gke_inference.capacity.accelerator_pool import AcceleratorPool
from gke_inference.capacity.compute_class import ComputeClass
from gke_inference.cluster.cluster import InferenceCluster
from gke_inference.cluster.network import Network
from gke_inference.gateway.inference_gateway import InferenceGateway
from gke_inference.namespace.serving_namespace import ServingNamespace
from gke_inference.operators.group_operator import (
    LeaderWorkerSetOperator,
    LeaderWorkerSetOperatorArgs,
)
from gke_inference.operators.metrics_adapter import MetricsAdapter
from gke_inference.storage.model_bucket import ModelBucket
from infra.arguments import models as assemble_models
from infra.arguments import provisioning as assemble
from infra.arguments.provisioning import Site
from infra.images import taken_from_repository
from infra.plan import RegionPlan
from infra.serving import serve
from infra.stack import Platform


@dataclass(frozen=True)
class BuiltRegion:
    """What a region gives to the outside."""

    cluster: InferenceCluster
    gateway: InferenceGateway | None


def build_region(
    platform: Platform,
    region: RegionPlan,
    network: Network,
    image_cache: pulumi.Input[str] | None,
    after: list[pulumi.Resource],
) -> BuiltRegion:
    """Build a region.

    Args:
        platform: The stack.
        region: The region, resolved.
        network: The network, with subnets in the region.
        image_cache: Disk image for the nodes of capacity that asks for it.
        after: What must be there before, and go later.
    """
    opts = pulumi.ResourceOptions(depends_on=after)
    subnetwork = network.subnetworks.apply(lambda names: names[region.name])
    cluster = InferenceCluster(
        region.name,
        assemble.cluster_args(
            platform,
            region,
            network=network.network_id,
            subnetwork=subnetwork,
            pods_range=network.pods_range_name,
            services_range=network.services_range_name,
        ),
        pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[network])),
    )
    buckets: dict[str, pulumi.Input[str]] = {
        role: ModelBucket(f"{region.name}-{role}", args, opts).bucket_name
        for role, args in assemble.bucket_args(platform, region).items()
    }
    # Objects go before the pools that run them, and a cluster goes last.
    provider = kubernetes.Provider(
        region.name,
        cluster_identifier=f"{platform.project}/{region.name}",  # a new kubeconfig replaces nothing
        kubeconfig=cluster.kubeconfig,
        upsert_existing_objects=True,  # a run that was killed is finished by the next one
        opts=pulumi.ResourceOptions(depends_on=[cluster]),
    )
    inside = pulumi.ResourceOptions(
        providers=[provider], transformations=taken_from_repository(platform, region.name)
    )
    site = Site(
        cluster_name=cluster.cluster_name,
        image_cache=image_cache,
        node_service_account=cluster.node_service_account,
        platform=platform,
        region=region,
    )
    adapter = assemble.adapter_args(platform)
    if adapter is not None and region.served:
        MetricsAdapter(f"{region.name}-metrics-adapter", adapter, inside)
    capacity = _build_capacity(site, cluster, inside)
    if region.has_groups:  # models come behind it, and go before it
        operator = LeaderWorkerSetOperatorArgs()
        capacity.append(LeaderWorkerSetOperator(f"{region.name}-groups", operator, inside))
    return BuiltRegion(
        cluster=cluster,
        gateway=_build_serving(platform, region, buckets, subnetwork, capacity, inside),
    )


def _build_capacity(
    site: Site, cluster: InferenceCluster, inside: pulumi.ResourceOptions
) -> list[pulumi.Resource]:
    """Build the compute classes, and first the pools they name."""
    classes: list[pulumi.Resource] = []
    for capacity in site.region.used_capacity:
        pools: list[pulumi.Resource] = [
            AcceleratorPool(
                f"{site.region.name}-{name}", args, pulumi.ResourceOptions(depends_on=[cluster])
            )
            for name, args in assemble.pool_args(site, capacity).items()
        ]
        behind = pulumi.ResourceOptions.merge(inside, pulumi.ResourceOptions(depends_on=pools))
        classes += [
            ComputeClass(f"{site.region.name}-{name}", args, behind)
            for name, args in assemble.class_args(site, capacity).items()
        ]
    return classes


def _build_serving(
    platform: Platform,
    region: RegionPlan,
    buckets: dict[str, pulumi.Input[str]],
    subnetwork: pulumi.Input[str],
    capacity: list[pulumi.Resource],
    inside: pulumi.ResourceOptions,
) -> InferenceGateway | None:
    """Build the namespace, every model in it, and the gateway; nothing where no model runs."""
    if not region.served:
        return None
    namespace = ServingNamespace(
        f"{region.name}-namespace", assemble.namespace_args(platform, region), inside
    )
    behind = pulumi.ResourceOptions.merge(
        inside, pulumi.ResourceOptions(depends_on=[namespace, *capacity])
    )
    servers = {
        served.name: serve(platform, region, served, buckets, behind) for served in region.served
    }
    return InferenceGateway(
        f"{region.name}-gateway",
        assemble_models.gateway_args(platform, region, servers, subnetwork),
        pulumi.ResourceOptions.merge(inside, pulumi.ResourceOptions(depends_on=[namespace])),
    )
