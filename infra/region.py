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
from infra.plan.capacity import has_groups, regions_using
from infra.serving import serve
from infra.stack import Platform


@dataclass(frozen=True)
class BuiltRegion:
    """What a region gives to the outside."""

    cluster: InferenceCluster
    gateway: InferenceGateway | None


def build_region(
    platform: Platform,
    region: str,
    network: Network,
    image_cache: pulumi.Input[str] | None,
    after: list[pulumi.Resource],
) -> BuiltRegion:
    """Build a region.

    Args:
        platform: The stack.
        region: Name of the region.
        network: The network, with subnets in the region.
        image_cache: Disk image for the nodes of capacity that asks for it.
        after: What must be there before, and go later.
    """
    opts = pulumi.ResourceOptions(depends_on=after)
    subnetwork = network.subnetworks.apply(lambda names: names[region])
    cluster = InferenceCluster(
        region,
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
        role: ModelBucket(f"{region}-{role}", args, opts).bucket_name
        for role, args in assemble.bucket_args(platform, region).items()
    }
    # Objects go before the pools that run them, and a cluster goes last.
    provider = kubernetes.Provider(
        region,
        cluster_identifier=f"{platform.project}/{region}",  # a new kubeconfig replaces nothing
        kubeconfig=cluster.kubeconfig,
        upsert_existing_objects=True,  # a run that was killed is finished by the next one
        opts=pulumi.ResourceOptions(depends_on=[cluster]),
    )
    inside = pulumi.ResourceOptions(
        providers=[provider], transformations=taken_from_repository(platform, region)
    )
    site = Site(
        cluster_name=cluster.cluster_name,
        image_cache=image_cache,
        node_service_account=cluster.node_service_account,
        platform=platform,
        region=region,
    )
    adapter = assemble.adapter_args(platform)
    if adapter is not None and platform.models_in(region):
        MetricsAdapter(f"{region}-metrics-adapter", adapter, inside)
    capacity = _build_capacity(site, cluster, inside)
    if has_groups(platform, region):  # models come behind it, and go before it
        operator = LeaderWorkerSetOperatorArgs()
        capacity.append(LeaderWorkerSetOperator(f"{region}-groups", operator, inside))
    return BuiltRegion(
        cluster=cluster,
        gateway=_build_serving(platform, region, buckets, subnetwork, capacity, inside),
    )


def _build_capacity(
    site: Site, cluster: InferenceCluster, inside: pulumi.ResourceOptions
) -> list[pulumi.Resource]:
    """Build the compute classes, and first the pools they name."""
    classes: list[pulumi.Resource] = []
    for capacity in site.platform.capacity:
        if site.region not in regions_using(site.platform, capacity):
            continue
        pools: list[pulumi.Resource] = [
            AcceleratorPool(
                f"{site.region}-{name}", args, pulumi.ResourceOptions(depends_on=[cluster])
            )
            for name, args in assemble.pool_args(site, capacity).items()
        ]
        behind = pulumi.ResourceOptions.merge(inside, pulumi.ResourceOptions(depends_on=pools))
        classes += [
            ComputeClass(f"{site.region}-{name}", args, behind)
            for name, args in assemble.class_args(site, capacity).items()
        ]
    return classes


def _build_serving(
    platform: Platform,
    region: str,
    buckets: dict[str, pulumi.Input[str]],
    subnetwork: pulumi.Input[str],
    capacity: list[pulumi.Resource],
    inside: pulumi.ResourceOptions,
) -> InferenceGateway | None:
    """Build the namespace, every model in it, and the gateway; nothing where no model runs."""
    models = platform.models_in(region)
    if not models:
        return None
    namespace = ServingNamespace(
        f"{region}-namespace", assemble.namespace_args(platform, region), inside
    )
    behind = pulumi.ResourceOptions.merge(
        inside, pulumi.ResourceOptions(depends_on=[namespace, *capacity])
    )
    servers = {name: serve(platform, name, region, buckets, behind) for name in models}
    return InferenceGateway(
        f"{region}-gateway",
        assemble_models.gateway_args(platform, region, servers, subnetwork),
        pulumi.ResourceOptions.merge(inside, pulumi.ResourceOptions(depends_on=[namespace])),
    )
