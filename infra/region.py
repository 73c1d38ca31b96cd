"""Wires one region: cluster, buckets, capacity, models and the gateway in front of them."""

from dataclasses import dataclass
from typing import Any, cast

import pulumi
import pulumi_kubernetes as kubernetes

from gke_inference.capacity.accelerator_pool import AcceleratorPool
from gke_inference.capacity.compute_class import ComputeClass
from gke_inference.cluster.cluster import InferenceCluster
from gke_inference.cluster.existing_cluster import ExistingCluster
from gke_inference.cluster.workload_identity import WorkloadIdentity
from gke_inference.gateway.certificate import GatewayCertificate
from gke_inference.gateway.inference_gateway import InferenceGateway
from gke_inference.namespace.serving_namespace import ServingNamespace
from gke_inference.operators.group_operator import (
    LeaderWorkerSetOperator,
    LeaderWorkerSetOperatorArgs,
)
from gke_inference.operators.metrics_adapter import MetricsAdapter
from gke_inference.serving.weights_gate import NAME as GATE
from gke_inference.serving.weights_gate import WeightsGate, WeightsGateArgs
from gke_inference.storage.model_bucket import ModelBucket
from infra.arguments import models as assemble_models
from infra.arguments import provisioning as assemble
from infra.arguments.hostname import certificate_args
from infra.arguments.provisioning import Site
from infra.images import let_nodes_pull, taken_from_repository
from infra.network import RegionNetwork
from infra.plan import RegionPlan
from infra.plan.names import Names
from infra.serving import serve
from infra.stack import ClusterMode, Platform

FIELD_MANAGER = "pulumi.com/patchFieldManager"
"""Annotation that names the field manager of an object."""


Cluster = InferenceCluster | ExistingCluster
"""A cluster, made or existing: both have the same outputs."""


@dataclass(frozen=True)
class BuiltRegion:
    """What a region gives to the outside."""

    cluster: Cluster
    gateway: InferenceGateway | None


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
    inside = _inside(platform, region, cluster)
    site = Site(
        cluster_name=cluster.cluster_name,
        image_cache=image_cache,
        node_service_account=cluster.node_service_account,
        platform=platform,
        region=region,
    )
    adapter = assemble.adapter_args(platform)
    if adapter is not None and region.served:
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
    return BuiltRegion(
        cluster=cluster,
        gateway=_build_serving(
            platform,
            region,
            buckets,
            network.subnetwork,
            capacity,
            _build_certificate(platform, region, opts),
            inside,
        ),
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


def _inside(platform: Platform, region: RegionPlan, cluster: Cluster) -> pulumi.ResourceOptions:
    """Return the options of objects in a cluster: their provider, owner and images."""
    # Objects go before the pools that run them, and a cluster goes last.
    provider = kubernetes.Provider(
        region.name,
        cluster_identifier=f"{platform.project}/{region.name}",  # a new kubeconfig replaces nothing
        kubeconfig=cluster.kubeconfig,
        # A run that was killed is finished by the next one. In an existing cluster an object of the
        # same name may be somebody else's: to take it over would be to delete it in the end.
        upsert_existing_objects=region.settings.existing.cluster is None,
        opts=pulumi.ResourceOptions(depends_on=[cluster]),
    )
    images = taken_from_repository(platform, region.name)
    return pulumi.ResourceOptions(
        providers=[provider], transformations=[_owned(platform), *(images or [])]
    )


def _owned(platform: Platform) -> pulumi.ResourceTransformation:
    """Return what gives every object of a cluster the same field manager in every run.

    By default an object has a random one, which is only in the state: objects that an interrupted
    run left would have two owners, and the first change of a field they share would be refused.
    """
    manager = Names(platform).field_manager()

    def own(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult:
        metadata: Any = args.props.get("metadata")
        if not args.type_.startswith("kubernetes:") or not isinstance(metadata, dict):
            return pulumi.ResourceTransformationResult(args.props, args.opts)
        known = cast("dict[str, Any]", metadata)
        given = cast("dict[str, Any]", known.get("annotations") or {})
        annotations: dict[str, Any] = {**given, FIELD_MANAGER: manager}
        props: dict[str, Any] = {**args.props, "metadata": {**known, "annotations": annotations}}
        return pulumi.ResourceTransformationResult(props, args.opts)

    return own


def _build_certificate(
    platform: Platform, region: RegionPlan, opts: pulumi.ResourceOptions
) -> list[pulumi.Resource]:
    """Build the certificate of the region's gateway, where the stack issues one."""
    args = certificate_args(platform, region.name)
    if args is None or not region.served:
        return []
    return [GatewayCertificate(f"{region.name}-certificate", args, opts)]


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
    certificates: list[pulumi.Resource],
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
    _build_gate(
        platform,
        region,
        buckets,
        pulumi.ResourceOptions.merge(inside, pulumi.ResourceOptions(depends_on=[namespace])),
    )
    servers = {
        served.name: serve(platform, region, served, buckets, behind) for served in region.served
    }
    return InferenceGateway(
        f"{region.name}-gateway",
        assemble_models.gateway_args(platform, region, servers, subnetwork),
        pulumi.ResourceOptions.merge(
            inside, pulumi.ResourceOptions(depends_on=[namespace, *certificates])
        ),
    )


def _build_gate(
    platform: Platform,
    region: RegionPlan,
    buckets: dict[str, pulumi.Input[str]],
    inside: pulumi.ResourceOptions,
) -> None:
    """Build what starts the models once their weights are there."""
    account = WorkloadIdentity(
        f"{region.name}-weights-gate-identity",
        assemble_models.gate_identity_args(platform, region, buckets),
        inside,
    )
    WeightsGate(
        f"{region.name}-weights-gate",
        WeightsGateArgs(namespace=Names(platform).namespace(), service_account=GATE),
        pulumi.ResourceOptions.merge(inside, pulumi.ResourceOptions(depends_on=[account])),
    )
