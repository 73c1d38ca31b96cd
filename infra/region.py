"""Wires one region: cluster, buckets, capacity, models and the gateway in front of them."""

from dataclasses import dataclass

import pulumi

from gke_inference.capacity.accelerator_pool import AcceleratorPool
from gke_inference.capacity.compute_class import ComputeClass
from gke_inference.cluster.cluster import InferenceCluster
from gke_inference.cluster.existing_cluster import ExistingCluster
from gke_inference.front.published_gateway import PublishedGateway
from gke_inference.gateway.certificate import GatewayCertificate
from gke_inference.gateway.inference_gateway import InferenceGateway
from gke_inference.namespace.serving_namespace import ServingNamespace
from gke_inference.operators.group_operator import (
    LeaderWorkerSetOperator,
    LeaderWorkerSetOperatorArgs,
)
from gke_inference.operators.metrics_adapter import MetricsAdapter
from gke_inference.storage.model_bucket import ModelBucket
from gke_inference.storage.shared_folder import SharedFolder
from infra.arguments import front as assemble_front
from infra.arguments import models as assemble_models
from infra.arguments import provisioning as assemble
from infra.arguments.filestore import shared_folder_args
from infra.arguments.hostname import certificate_args
from infra.arguments.provisioning import RegionNetwork, Site
from infra.arguments.sharing import route_sources
from infra.edge.backends import relay_backends
from infra.edge.batches import answer_batches
from infra.edge.clients import admit_clients
from infra.edge.guardrails import guard_region
from infra.edge.streams import stream_to_models
from infra.images import let_nodes_pull
from infra.jobs.queues import build_queues
from infra.options.inside import inside as options_inside
from infra.plan import RegionPlan
from infra.plan.names import Names
from infra.serving import open_models, serve
from infra.sharing import share
from infra.stack import ClusterMode, Platform

Cluster = InferenceCluster | ExistingCluster
"""A cluster, made or existing: both have the same outputs."""


@dataclass(frozen=True)
class BuiltRegion:
    """What a region gives to the outside."""

    cluster: Cluster
    gateway: InferenceGateway | None
    published: PublishedGateway | None = None
    """What other networks, and a global front, connect to."""


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
        after: What must be there before, and go later.
    """
    opts = pulumi.ResourceOptions(depends_on=after)
    cluster = _build_cluster(platform, region, network, opts)
    buckets: dict[str, pulumi.Input[str]] = {
        role: ModelBucket(f"{region.name}-{role}", args, opts).bucket_name
        for role, args in assemble.bucket_args(platform, region).items()
    }
    buckets.setdefault("models", Names(platform).bucket("models", region.name))
    inside = options_inside(platform, region, cluster.kubeconfig, [cluster])
    site = Site(
        cluster_name=cluster.cluster_name,
        image_cache=image_cache,
        node_service_account=cluster.node_service_account,
        platform=platform,
        region=region,
    )
    adapter = assemble.adapter_args(platform)
    if adapter is not None and region.has_gateway:
        made = MetricsAdapter(f"{region.name}-metrics-adapter", adapter, inside)
        if region.settings.mode is ClusterMode.AUTOPILOT:
            # A new Autopilot cluster has none of GKE's own kinds at first, and the provider asks a
            # few times only. The adapter's pod is waited for, and needs GKE's first node.
            behind = pulumi.ResourceOptions(depends_on=[made])
            inside = pulumi.ResourceOptions.merge(inside, behind)
    capacity = _build_capacity(site, cluster, inside)
    capacity += let_nodes_pull(platform, region.name, cluster.node_service_account, opts)
    if region.has_groups:  # models come behind it, and go before it
        operator = LeaderWorkerSetOperatorArgs()
        capacity.append(LeaderWorkerSetOperator(f"{region.name}-groups", operator, inside))
    build_queues(region, inside, capacity)
    gateway = _build_serving(
        platform,
        region,
        buckets,
        network,
        capacity,
        _build_certificate(platform, region, opts),
        inside,
    )
    return BuiltRegion(
        cluster=cluster,
        gateway=gateway,
        published=_publish(platform, region, network, gateway, inside),
    )


def _build_cluster(
    platform: Platform,
    region: RegionPlan,
    network: RegionNetwork,
    opts: pulumi.ResourceOptions,
) -> Cluster:
    """Build the cluster of a region, or take the one that is named."""
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


def _build_certificate(
    platform: Platform, region: RegionPlan, opts: pulumi.ResourceOptions
) -> list[pulumi.Resource]:
    """Build the certificate of the region's gateway, where the stack issues one."""
    args = certificate_args(platform, region.name)
    if args is None or not region.has_gateway:
        return []
    return [GatewayCertificate(f"{region.name}-certificate", args, opts)]


def _publish(
    platform: Platform,
    region: RegionPlan,
    network: RegionNetwork,
    gateway: InferenceGateway | None,
    inside: pulumi.ResourceOptions,
) -> PublishedGateway | None:
    """Publish the region's gateway, where the stack asks for it."""
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
    site: Site, cluster: Cluster, inside: pulumi.ResourceOptions
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
        made: list[pulumi.Resource] = [
            ComputeClass(f"{site.region.name}-{name}", args, behind)
            for name, args in assemble.class_args(site, capacity).items()
        ]
        classes += made or pools  # a pool with queued provisioning has no class
    return classes


def _build_serving(
    platform: Platform,
    region: RegionPlan,
    buckets: dict[str, pulumi.Input[str]],
    network: RegionNetwork,
    capacity: list[pulumi.Resource],
    certificates: list[pulumi.Resource],
    inside: pulumi.ResourceOptions,
) -> InferenceGateway | None:
    """Build the namespace, every model in it, and the gateway; nothing where no model runs.

    Where serving stacks bring the models, the namespaces of their teams stand in their place.
    """
    if not region.has_gateway:
        return None
    namespace = ServingNamespace(
        f"{region.name}-namespace", assemble.namespace_args(platform, region), inside
    )
    after_namespace = pulumi.ResourceOptions(depends_on=[namespace])
    needed: list[pulumi.Resource] = [namespace, *capacity]
    folder = shared_folder_args(platform, region, network.network)
    if folder is not None:
        opts = pulumi.ResourceOptions.merge(inside, after_namespace)
        needed.append(SharedFolder(f"{region.name}-shared-folder", folder, opts))
    behind = pulumi.ResourceOptions.merge(inside, pulumi.ResourceOptions(depends_on=needed))
    if region.is_shared:
        share(platform, region, buckets, inside)
    else:
        gate_opts = pulumi.ResourceOptions.merge(inside, after_namespace)
        open_models(platform, region, buckets, gate_opts)
    servers = {
        served.name: serve(platform, region, served, buckets, behind) for served in region.served
    }
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
    admit_clients(platform, region, network, inside, gateway, guards)
    relay_backends(platform, region, inside, gateway)
    stream_to_models(platform, region, gateway.address, inside, [namespace, gateway])
    answer_batches(platform, region, gateway.address, inside, [namespace, gateway])
    return gateway
