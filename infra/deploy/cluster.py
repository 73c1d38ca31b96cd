"""The cluster of a region, created or existing, and GKE's own kinds in it."""

from typing import Final

import pulumi

from gke_inference.cluster.cluster import InferenceCluster
from gke_inference.cluster.cluster_settings import InferenceClusterArgs
from gke_inference.cluster.existing_cluster import ExistingCluster, ExistingClusterArgs
from gke_inference.operators.cluster_kinds import ClusterKinds, ClusterKindsArgs
from infra.deploy.network import RegionNetwork
from infra.plan import RegionPlan
from infra.plan.gke_version import asked
from infra.stack import ClusterMode

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


def build_cluster(
    region: RegionPlan,
    network: RegionNetwork,
    opts: pulumi.ResourceOptions,
) -> Cluster:
    """Build the cluster of a region, or reference the existing one."""
    existing = existing_cluster_args(region)
    if existing is not None:
        return ExistingCluster(region.name, existing, opts)
    if network.pods_range is None or network.services_range is None:
        raise ValueError(f"{region.name} must have ranges for pods and services")
    args = cluster_args(
        region,
        network=network.network,
        subnetwork=network.subnetwork,
        pods_range=network.pods_range,
        services_range=network.services_range,
    )
    behind = pulumi.ResourceOptions(depends_on=[*network.after])
    return InferenceCluster(region.name, args, pulumi.ResourceOptions.merge(opts, behind))


def after_kinds(region: RegionPlan, inside: pulumi.ResourceOptions) -> pulumi.ResourceOptions:
    """Return options for objects that are created once a new cluster has GKE's own kinds.

    On a standard cluster, GKE installs them while it creates the first node pool.
    """
    is_new = region.settings.existing.cluster is None
    if region.settings.mode is not ClusterMode.AUTOPILOT or not is_new:
        return inside
    args = ClusterKindsArgs(kinds=[*_KINDS, *(_GATEWAY_KINDS if region.serves_models else ())])
    kinds = ClusterKinds(f"{region.name}-kinds", args, inside)
    behind = pulumi.ResourceOptions(depends_on=[kinds])
    return pulumi.ResourceOptions.merge(inside, behind)


def cluster_args(
    region: RegionPlan,
    *,
    network: pulumi.Input[str],
    subnetwork: pulumi.Input[str],
    pods_range: pulumi.Input[str],
    services_range: pulumi.Input[str],
) -> InferenceClusterArgs:
    """Return the arguments of a region's cluster."""
    settings, cluster = region.settings, region.cluster
    args = InferenceClusterArgs(
        cluster_name=cluster.name,
        deletion_protection=region.project.is_protected,
        labels=region.project.labels,
        location=cluster.location,
        mode=settings.mode,
        network=network,
        node_account_id=cluster.node_account,
        min_version=asked(region),
        node_zones=list(settings.zones),
        pods_range=pods_range,
        project=region.project.id,
        release_channel=settings.release_channel,
        services_range=services_range,
        subnetwork=subnetwork,
    )
    if settings.authorized_networks:
        args["authorized_networks"] = dict(settings.authorized_networks)
    _turn_on(args, region)
    if settings.auto_provisioning_limits is not None:
        args["auto_provisioning_limits"] = dict(settings.auto_provisioning_limits)
    if settings.kms_key is not None:
        args["kms_key"] = settings.kms_key
    if settings.data_key is not None:
        args["boot_disk_key"] = settings.data_key
    if cluster.holds_upgrades:
        args["hold_upgrades"] = True
    args["maintenance"] = cluster.maintenance
    if settings.system_pool is not None:
        args["system_pool"] = settings.system_pool
    return args


def _turn_on(args: InferenceClusterArgs, region: RegionPlan) -> None:
    """Turn on the parts of a cluster that something in the region needs."""
    if region.cluster.has_traces:
        args["traces"] = True
    if region.storage.filestore is not None:
        args["shared_folders"] = True
    if region.storage.lustre is not None:
        args["lustre"] = True
    if region.has_ray_clusters:
        args["ray_operator"] = True
    if region.interface_network is not None:
        args["multi_networking"] = True
    if region.cluster.is_attested:
        args["image_admission"] = True


def existing_cluster_args(region: RegionPlan) -> ExistingClusterArgs | None:
    """Return the arguments of a region's existing cluster."""
    cluster = region.settings.existing.cluster
    if cluster is None:
        return None
    return ExistingClusterArgs(cluster=cluster, node_account_id=region.cluster.node_account)
