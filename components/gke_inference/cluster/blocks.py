"""The blocks of a cluster's arguments, built from its checked settings."""

import pulumi
from pulumi_gcp import container

from gke_inference.catalogue.system_pool import DISK_TYPE

from .settings import ClusterSettings

KUBELET: "container.ClusterNodePoolAutoConfigNodeKubeletConfigArgsDict" = {
    "insecure_kubelet_readonly_port_enabled": "FALSE"
}
"""For nodes GKE makes by itself: no unauthenticated port."""

MONITORING: "container.ClusterMonitoringConfigArgsDict" = {
    # Every metrics package of GKE; POD carries the counts that fallback scaling reads.
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
    # The platform ships its own PodMonitoring; a second one would count everything twice.
    "managed_prometheus": {"auto_monitoring_config": {"scope": "NONE"}, "enabled": True},
}

HELD: "container.ClusterMaintenancePolicyMaintenanceExclusionArgsDict" = {
    "exclusion_name": "scarce-nodes",
    "exclusion_options": {
        "end_time_behavior": "UNTIL_END_OF_SUPPORT",
        "scope": "NO_MINOR_OR_NODE_UPGRADES",
    },
    "start_time": "2026-11-22T00:00:00Z",  # any day in the past: it holds from the start
}
"""Patches of the control plane go on; nodes and minor versions wait (cluster-toolkit @1047080,
examples/gke-tpu-v6e)."""

NODE_SCOPES = ["https://www.googleapis.com/auth/cloud-platform"]
"""One wide scope: what a node may do is decided by its roles, not by legacy scopes."""

SHIELDED: "container.NodePoolNodeConfigShieldedInstanceConfigArgsDict" = {
    "enable_integrity_monitoring": True,
    "enable_secure_boot": True,
}

NODE_DEFAULTS: "container.ClusterNodePoolDefaultsNodeConfigDefaultsArgsDict" = {
    "gcfs_config": {"enabled": True},  # image streaming
    "insecure_kubelet_readonly_port_enabled": "FALSE",
}


def addons(*, shared_folders: bool) -> "container.ClusterAddonsConfigArgsDict":
    """Returns the add-ons of a cluster, with the driver of Filestore where it is used."""
    found: container.ClusterAddonsConfigArgsDict = {
        "gce_persistent_disk_csi_driver_config": {"enabled": True},
        "gcs_fuse_csi_driver_config": {"enabled": True},
        "horizontal_pod_autoscaling": {"disabled": False},
        "http_load_balancing": {"disabled": False},  # gateways need it
    }
    if shared_folders:
        found["gcp_filestore_csi_driver_config"] = {"enabled": True}
    return found


def first_nodes(node_account: pulumi.Output[str]) -> "container.ClusterNodeConfigArgsDict":
    """Returns the config of the pool GKE makes with a cluster, which is removed at once.

    Without it those nodes run as the project's default account: many projects have none, or a
    policy against it and against machines without secure boot, and the cluster is not made.
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
    """Returns the autoscaler block: idle nodes go early, since chips cost most when idle.

    The defaults are of every pool that GKE makes by itself. A compute class cannot say how its
    pools are upgraded (docs.cloud.google.com/kubernetes-engine/docs/how-to/node-auto-provisioning,
    limitations), so they are written without auto-provisioning, too; that GKE takes them for the
    pools of classes then is assumed.
    """
    defaults: container.ClusterClusterAutoscalingAutoProvisioningDefaultsArgsDict = {
        "oauth_scopes": NODE_SCOPES,
        "service_account": node_account,
    }
    if boot_disk_key is not None:
        defaults["boot_disk_kms_key"] = boot_disk_key
    if settings.is_autopilot:
        # How Autopilot is told which account its nodes run as.
        return {"auto_provisioning_defaults": defaults}
    defaults = {
        **defaults,
        "disk_type": DISK_TYPE,  # the API's own, pd-standard, fits no machine with an L4
        "image_type": "COS_CONTAINERD",
        "management": {"auto_repair": True, "auto_upgrade": True},
        "shielded_instance_config": SHIELDED,
        # Scarce chips have no spare to surge onto.
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
    """Returns the endpoints: DNS guarded by IAM, and IP only for networks that were named."""
    return {
        "dns_endpoint_config": {"allow_external_traffic": settings.control_plane_from_internet},
        "ip_endpoints_config": {"enabled": bool(settings.authorized_networks)},
    }


def maintenance_policy(
    settings: ClusterSettings,
) -> "container.ClusterMaintenancePolicyArgsDict":
    """Returns the weekly window, and what is left alone until the version is supported no more."""
    window = settings.maintenance
    policy: container.ClusterMaintenancePolicyArgsDict = {
        "recurring_maintenance_window": {
            "recurrence": f"FREQ=WEEKLY;BYDAY={','.join(window['days'])}",
            "window_duration": f"{window['hours'] * 3600}s",
            "window_start_time": {"hours": window["start_hour"], "minutes": 0, "seconds": 0},
        }
    }
    if settings.hold_upgrades:
        policy["maintenance_exclusions"] = [HELD]
    return policy


def authorized_networks(
    settings: ClusterSettings,
) -> "container.ClusterMasterAuthorizedNetworksConfigArgsDict | None":
    """Returns who may use the IP endpoint; `None` when there is no such endpoint."""
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
    """Returns how Kubernetes secrets are encrypted; `None` leaves it to Google's own keys."""
    return None if key is None else {"key_name": key, "state": "ENCRYPTED"}


def admission(by_policy: bool) -> "container.ClusterBinaryAuthorizationArgsDict | None":
    """Returns whether the project's policy is asked about images; the cluster's own has no rule."""
    return {"evaluation_mode": "PROJECT_SINGLETON_POLICY_ENFORCE"} if by_policy else None
