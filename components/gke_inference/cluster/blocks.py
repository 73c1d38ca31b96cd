"""Argument blocks of a cluster, built from its validated settings."""

import pulumi
from pulumi_gcp import container

from .cluster_settings import ClusterSettings

KUBELET: "container.ClusterNodePoolAutoConfigNodeKubeletConfigArgsDict" = {
    "insecure_kubelet_readonly_port_enabled": "FALSE"
}
"""For nodes that GKE creates: no unauthenticated port."""

MONITORING: "container.ClusterMonitoringConfigArgsDict" = {
    # All of GKE's metrics packages; fallback scaling reads the counts in POD.
    "enable_components": [
        "SYSTEM_COMPONENTS",
        "APISERVER",
        "SCHEDULER",
        "CONTROLLER_MANAGER",
        "STORAGE",
        "HPA",
        "POD",
        "DAEMONSET",
        "DEPLOYMENT",
        "STATEFULSET",
        "KUBELET",
        "CADVISOR",
        "DCGM",
        "JOBSET",
    ],
    # The platform has its own PodMonitoring; a second one would store everything twice.
    "managed_prometheus": {"auto_monitoring_config": {"scope": "NONE"}, "enabled": True},
}

HELD: "container.ClusterMaintenancePolicyMaintenanceExclusionArgsDict" = {
    "exclusion_name": "scarce-nodes",
    "exclusion_options": {
        "end_time_behavior": "UNTIL_END_OF_SUPPORT",
        "scope": "NO_MINOR_OR_NODE_UPGRADES",
    },
    "start_time": "2026-11-22T00:00:00Z",  # any day in the past, so that it applies immediately
}
"""Control plane patches continue; node and minor version upgrades wait (cluster-toolkit @1047080,
examples/gke-tpu-v6e)."""

NODE_SCOPES = ["https://www.googleapis.com/auth/cloud-platform"]
"""One broad scope: IAM roles, not legacy scopes, limit what a node may do."""

SHIELDED: "container.NodePoolNodeConfigShieldedInstanceConfigArgsDict" = {
    "enable_integrity_monitoring": True,
    "enable_secure_boot": True,
}

NODE_DEFAULTS: "container.ClusterNodePoolDefaultsNodeConfigDefaultsArgsDict" = {
    "gcfs_config": {"enabled": True},  # image streaming
    "insecure_kubelet_readonly_port_enabled": "FALSE",
}


def addons(
    *, shared_folders: bool, lustre: bool = False, ray_operator: bool = False
) -> "container.ClusterAddonsConfigArgsDict":
    """Return the add-ons of a cluster, including drivers of file systems and KubeRay if used."""
    found: container.ClusterAddonsConfigArgsDict = {
        "gce_persistent_disk_csi_driver_config": {"enabled": True},
        "gcs_fuse_csi_driver_config": {"enabled": True},
        "horizontal_pod_autoscaling": {"disabled": False},
        "http_load_balancing": {"disabled": False},  # required by gateways
    }
    if shared_folders:
        found["gcp_filestore_csi_driver_config"] = {"enabled": True}
    if lustre:
        found["lustre_csi_driver_config"] = {"enabled": True}
    if ray_operator:
        found["ray_operator_configs"] = [{"enabled": True}]
    return found


def first_nodes(node_account: pulumi.Output[str]) -> "container.ClusterNodeConfigArgsDict":
    """Return the config of the default pool, which is removed after creation.

    Without it, those nodes would run as the project's default account. Many projects have none, or
    a policy against it or against VMs without secure boot, and creating the cluster would fail.
    """
    return {
        "oauth_scopes": NODE_SCOPES,
        "service_account": node_account,
        "shielded_instance_config": SHIELDED,
        "workload_metadata_config": {"mode": "GKE_METADATA"},
    }


def autoscaling(
    settings: ClusterSettings,
    node_account: pulumi.Output[str],
    boot_disk_key: pulumi.Input[str] | None = None,
) -> "container.ClusterClusterAutoscalingArgsDict":
    """Return the autoscaler block: idle nodes are removed early, since idle chips are expensive.

    The defaults apply to all pools that GKE creates. A compute class cannot define how its pools
    are upgraded (docs.cloud.google.com/kubernetes-engine/docs/how-to/node-auto-provisioning,
    limitations), so the defaults are also set without auto-provisioning. That GKE then uses them
    for the pools of classes is assumed.
    """
    defaults: container.ClusterClusterAutoscalingAutoProvisioningDefaultsArgsDict = {
        "oauth_scopes": NODE_SCOPES,
        "service_account": node_account,
    }
    if boot_disk_key is not None:
        defaults["boot_disk_kms_key"] = boot_disk_key
    if settings.is_autopilot:
        # Autopilot takes the node service account from here.
        return {"auto_provisioning_defaults": defaults}
    defaults = {
        **defaults,
        "disk_type": "pd-balanced",  # the API default, pd-standard, is not supported on L4 machines
        "image_type": "COS_CONTAINERD",
        "management": {"auto_repair": True, "auto_upgrade": True},
        "shielded_instance_config": SHIELDED,
        # Scarce chips leave no spare capacity for a surge.
        "upgrade_settings": {"max_surge": 0, "max_unavailable": 1, "strategy": "SURGE"},
    }
    if not settings.auto_provisioning_limits:
        return {
            "auto_provisioning_defaults": defaults,
            "autoscaling_profile": "OPTIMIZE_UTILIZATION",
            "enabled": False,
        }
    return {
        "auto_provisioning_defaults": defaults,
        "autoscaling_profile": "OPTIMIZE_UTILIZATION",
        "enabled": True,
        "resource_limits": [
            {"maximum": most, "minimum": 0, "resource_type": kind}
            for kind, most in sorted(settings.auto_provisioning_limits.items())
        ],
    }


def control_plane_access(
    settings: ClusterSettings,
) -> "container.ClusterControlPlaneEndpointsConfigArgsDict":
    """Return the endpoints: DNS with IAM, and IP for authorized networks only."""
    return {
        "dns_endpoint_config": {"allow_external_traffic": settings.control_plane_from_internet},
        "ip_endpoints_config": {"enabled": bool(settings.authorized_networks)},
    }


def maintenance_policy(
    settings: ClusterSettings,
) -> "container.ClusterMaintenancePolicyArgsDict":
    """Return the weekly window, and the exclusion until the version's end of support."""
    window = settings.maintenance
    policy: container.ClusterMaintenancePolicyArgsDict = {
        "recurring_maintenance_window": {
            "recurrence": f"FREQ=WEEKLY;BYDAY={','.join(window.days)}",
            "window_duration": f"{window.hours * 3600}s",
            "window_start_time": {"hours": window.start_hour, "minutes": 0, "seconds": 0},
        }
    }
    if settings.hold_upgrades:
        policy["maintenance_exclusions"] = [HELD]
    return policy


def authorized_networks(
    settings: ClusterSettings,
) -> "container.ClusterMasterAuthorizedNetworksConfigArgsDict | None":
    """Return the networks that may use the IP endpoint, or `None` if there is none."""
    if not settings.authorized_networks:
        return None
    return {
        "cidr_blocks": [
            {"cidr_block": block, "display_name": title}
            for title, block in sorted(settings.authorized_networks.items())
        ],
        "gcp_public_cidrs_access_enabled": False,
    }


def secret_encryption(
    key: pulumi.Input[str] | None,
) -> "container.ClusterDatabaseEncryptionArgsDict | None":
    """Return the encryption of Kubernetes Secrets, or `None` for Google-managed keys."""
    return None if key is None else {"key_name": key, "state": "ENCRYPTED"}


def admission(by_policy: bool) -> "container.ClusterBinaryAuthorizationArgsDict | None":
    """Return whether the cluster enforces the project's image policy."""
    return {"evaluation_mode": "PROJECT_SINGLETON_POLICY_ENFORCE"} if by_policy else None
