"""The node pools without accelerators: one, and its fallbacks."""

import pulumi
from pulumi_gcp import container

from gke_inference.catalogue.names import check_name
from gke_inference.catalogue.quotas import boot_disk
from gke_inference.catalogue.system_pool import SURGE_NODES

from .blocks import NODE_SCOPES, SHIELDED
from .cluster_settings import ClusterSettings


def system_pools(
    name: str,
    project: pulumi.Input[str],
    settings: ClusterSettings,
    cluster: container.Cluster,
    node_account: pulumi.Output[str],
    boot_disk_key: pulumi.Input[str] | None,
    opts: pulumi.ResourceOptions,
) -> None:
    """Build the system pool of a Standard cluster, and one per fallback.

    A different machine type updates the first pool in place, one new node before each removed one.
    The autoscaler uses a fallback while the first pool's machine type is out of stock.
    """
    pool = settings.system_pool
    first = pool.machine_type
    for machine_type in (first, *pool.fallback):
        is_first = machine_type == first
        least = pool.min_nodes if is_first else 0
        container.NodePool(
            f"{name}-system" if is_first else f"{name}-system-{machine_type}",
            autoscaling={
                "location_policy": "BALANCED",
                "total_max_node_count": pool.max_nodes,
                "total_min_node_count": least,
            },
            cluster=cluster.name,
            initial_node_count=1 if is_first else 0,
            location=settings.location,
            management={"auto_repair": True, "auto_upgrade": True},
            name="system" if is_first else check_name("node_pool", f"system-{machine_type}"),
            network_config={"enable_private_nodes": not settings.public_nodes},
            node_config={
                "boot_disk_kms_key": boot_disk_key,
                "disk_type": settings.system_disk_type if is_first else boot_disk(machine_type)[0],
                "gcfs_config": {"enabled": True},
                "gvnic": {"enabled": True},
                "image_type": "COS_CONTAINERD",
                "machine_type": machine_type,
                "metadata": {"disable-legacy-endpoints": "true"},
                "oauth_scopes": NODE_SCOPES,
                "resource_labels": settings.labels,
                "service_account": node_account,
                "shielded_instance_config": SHIELDED,
                "workload_metadata_config": {"mode": "GKE_METADATA"},
            },
            project=project,
            upgrade_settings={
                "max_surge": SURGE_NODES,
                "max_unavailable": 0,
                "strategy": "SURGE",
            },
            opts=pulumi.ResourceOptions.merge(
                opts,
                # The autoscaler manages the count, and GKE adds labels.
                pulumi.ResourceOptions(
                    ignore_changes=["initialNodeCount", "nodeConfig.resourceLabels"]
                ),
            ),
        )
