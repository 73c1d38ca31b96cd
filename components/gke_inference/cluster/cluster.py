"""A GKE cluster for inference: private, least-privileged, with accelerators and gateways."""

import pulumi
from pulumi_gcp import container

from gke_inference.base.checked import checked
from gke_inference.base.inputs import under
from gke_inference.base.kubeconfig import kubeconfig
from gke_inference.catalogue.tracing import MANAGED_SCOPE

from .blocks import (
    KUBELET,
    MONITORING,
    NODE_DEFAULTS,
    addons,
    admission,
    authorized_networks,
    autoscaling,
    control_plane_access,
    first_nodes,
    maintenance_policy,
    secret_encryption,
)
from .cluster_settings import ClusterSettings, InferenceClusterArgs, cluster_settings
from .node_account import node_account
from .system_pools import system_pools

REPORTED_BY_GKE = ["initialNodeCount", "nodeConfig", "nodePools"]
"""Fields to ignore: node pools are separate resources, but GKE also reports them on the cluster,
with the config and count of the removed default pool. These must not change or replace the
cluster."""


class InferenceCluster(pulumi.ComponentResource):
    """A Standard or Autopilot cluster with its node service account and system pool.

    Enables private nodes, a DNS endpoint with IAM access control, Workload Identity, Dataplane V2,
    Gateway API, Managed Prometheus, shielded nodes, image streaming, a release channel and deletion
    protection. Disables anonymous RBAC bindings and the kubelet's read-only port.
    """

    cluster_id: pulumi.Output[str]
    """`projects/P/locations/L/clusters/NAME`."""
    cluster_name: pulumi.Output[str]
    """Name of the cluster."""
    endpoint: pulumi.Output[str]
    """DNS name of the control plane."""
    kubeconfig: pulumi.Output[str]
    """For `pulumi_kubernetes.Provider`. It contains no secret."""
    location: pulumi.Output[str]
    """Region or zone of the cluster."""
    node_service_account: pulumi.Output[str]
    """Email of the node service account, known at preview."""
    workload_pool: pulumi.Output[str]
    """`PROJECT.svc.id.goog`."""

    def __init__(
        self, name: str, args: InferenceClusterArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:InferenceCluster", name, {}, opts)
        args = checked(InferenceClusterArgs, args)
        settings = cluster_settings(args)
        account, grants = node_account(
            name, settings.node_account_id, settings.cluster_name, args["project"], under(self)
        )
        workload_pool = pulumi.Output.concat(args["project"], ".svc.id.goog")
        cluster = self._build_cluster(name, args, settings, account, workload_pool, grants)
        if not settings.is_autopilot:
            key = args.get("boot_disk_key")
            system_pools(name, args["project"], settings, cluster, account, key, under(self))
        self.cluster_id = cluster.id
        self.cluster_name = cluster.name
        # Derived from the ID, which a preview does not know, so that it does not look up the name.
        self.endpoint = cluster.id.apply(
            lambda _: cluster.control_plane_endpoints_config.apply(dns_name)
        )
        self.kubeconfig = self.endpoint.apply(
            lambda endpoint: kubeconfig(settings.cluster_name, endpoint)
        )
        self.location = cluster.location
        self.node_service_account = account
        self.workload_pool = workload_pool
        self.register_outputs(
            {
                "clusterId": self.cluster_id,
                "clusterName": self.cluster_name,
                "endpoint": self.endpoint,
                "kubeconfig": self.kubeconfig,
                "location": self.location,
                "nodeServiceAccount": self.node_service_account,
                "workloadPool": self.workload_pool,
            }
        )

    def _build_cluster(
        self,
        name: str,
        args: InferenceClusterArgs,
        settings: ClusterSettings,
        account: pulumi.Output[str],
        workload_pool: pulumi.Output[str],
        grants: list[pulumi.Resource],
    ) -> container.Cluster:
        standard = not settings.is_autopilot  # Autopilot rejects settings that it manages
        return container.Cluster(
            name,
            addons_config=addons(
                lustre=args.get("lustre", False),
                ray_operator=args.get("ray_operator", False),
                shared_folders=args.get("shared_folders", False),
            ),
            binary_authorization=admission(args.get("image_admission", False)),
            cluster_autoscaling=autoscaling(settings, account, args.get("boot_disk_key")),
            control_plane_endpoints_config=control_plane_access(settings),
            cost_management_config={"enabled": True},
            database_encryption=secret_encryption(args.get("kms_key")),
            datapath_provider="ADVANCED_DATAPATH" if standard else None,
            deletion_protection=settings.deletion_protection,
            dns_config={"cluster_dns": "CLOUD_DNS", "cluster_dns_scope": "CLUSTER_SCOPE"},
            enable_autopilot=True if settings.is_autopilot else None,
            enable_intranode_visibility=True if standard else None,
            enable_multi_networking=True if args.get("multi_networking") else None,
            enable_shielded_nodes=True if standard else None,
            gateway_api_config={"channel": "CHANNEL_STANDARD"},
            initial_node_count=1 if standard else None,
            ip_allocation_policy={
                "cluster_secondary_range_name": args["pods_range"],
                "services_secondary_range_name": args["services_range"],
            },
            location=settings.location,
            logging_config={"enable_components": ["SYSTEM_COMPONENTS", "WORKLOADS"]},
            managed_opentelemetry_config=container.ClusterManagedOpentelemetryConfigArgsDict(
                scope=MANAGED_SCOPE
            )
            if args.get("traces")
            else None,
            maintenance_policy=maintenance_policy(settings),
            master_authorized_networks_config=authorized_networks(settings),
            min_master_version=settings.min_version,
            monitoring_config=MONITORING,
            name=settings.cluster_name,
            network=args["network"],
            networking_mode="VPC_NATIVE",
            node_config=first_nodes(account) if standard else None,
            node_locations=settings.node_zones,
            node_pool_auto_config={"node_kubelet_config": KUBELET},
            node_pool_defaults=container.ClusterNodePoolDefaultsArgsDict(
                node_config_defaults=NODE_DEFAULTS
            )
            if standard
            else None,
            pod_autoscaling={"hpa_profile": "PERFORMANCE"},
            private_cluster_config={"enable_private_nodes": not settings.public_nodes},
            project=args["project"],
            rbac_binding_config={
                "enable_insecure_binding_system_authenticated": False,
                "enable_insecure_binding_system_unauthenticated": False,
            },
            release_channel={"channel": settings.release_channel.value.upper()},
            remove_default_node_pool=True if standard else None,
            resource_labels=settings.labels,
            secret_manager_config={"enabled": True},
            security_posture_config={"mode": "BASIC"},
            subnetwork=args["subnetwork"],
            vertical_pod_autoscaling={"enabled": True},
            workload_identity_config={"workload_pool": workload_pool},
            opts=under(self, depends_on=grants, ignore_changes=REPORTED_BY_GKE),
        )


def dns_name(config: container.outputs.ClusterControlPlaneEndpointsConfig) -> str:
    """Return the DNS name of the control plane as the cluster reports it."""
    dns = config.dns_endpoint_config
    if dns is None or dns.endpoint is None:
        raise ValueError("the cluster reports no DNS endpoint")
    return dns.endpoint
