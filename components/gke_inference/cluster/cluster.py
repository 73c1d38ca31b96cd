"""A GKE cluster for inference: private, least-privileged, ready for accelerators and gateways."""

from typing import NotRequired, TypedDict

import pulumi
from pulumi_gcp import container

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
from .node_account import node_account
from .settings import ClusterSettings, MaintenanceArgs, SystemPoolArgs, cluster_settings
from .system_pools import system_pools

REPORTED_BY_GKE = ["initialNodeCount", "nodeConfig", "nodePools"]
"""Pools are resources of their own; GKE reports them on the cluster, with the removed default
pool's config and count, and none of it may change or replace the cluster."""


class InferenceClusterArgs(TypedDict):
    """Inputs of `InferenceCluster`."""

    cluster_name: str
    """Name of the cluster."""
    location: str
    """A region, or a zone for a zonal cluster, whose control plane is one machine."""
    mode: str
    """`standard` or `autopilot`."""
    network: pulumi.Input[str]
    """The VPC: `Network.network_id`."""
    pods_range: pulumi.Input[str]
    """Secondary range for pods: `Network.pods_range_name`."""
    project: pulumi.Input[str]
    """Project of the cluster."""
    services_range: pulumi.Input[str]
    """Secondary range for services: `Network.services_range_name`."""
    subnetwork: pulumi.Input[str]
    """The node subnet: `Network.subnetworks` at the cluster's region."""
    authorized_networks: NotRequired[dict[str, str]]
    """Also serve the control plane on an IP address, to these ranges (CIDR by a name for it).
    Default: none; the DNS endpoint, guarded by IAM, is the only way in."""
    auto_provisioning_limits: NotRequired[dict[str, int]]
    """Turn cluster-wide node auto-provisioning on with these maxima by resource: `cpu` (cores),
    `memory` (GiB), `nvidia-l4`, `tpu-v6e-slice` (chips). Default off: compute classes create
    pools without it since GKE 1.33.3-gke.1136000. Standard only."""
    boot_disk_key: NotRequired[pulumi.Input[str]]
    """Cloud KMS key of the boot disks of the system pool and of nodes that GKE provisions by
    itself; Compute Engine's service agent must be allowed to use it. Default: Google's own keys."""
    control_plane_from_internet: NotRequired[bool]
    """Whether the DNS endpoint answers callers outside the VPC that IAM lets in. Default yes."""
    deletion_protection: NotRequired[bool]
    """Refuse to delete or replace the cluster. Default yes."""
    hold_upgrades: NotRequired[bool]
    """Leave nodes and the minor version alone until the version's end of support; patches of the
    control plane go on. Default no."""
    image_admission: NotRequired[bool]
    """Ask the project's Binary Authorization policy about every image. Default no."""
    kms_key: NotRequired[pulumi.Input[str]]
    """Cloud KMS key that encrypts Kubernetes secrets; GKE's service agent needs
    `roles/cloudkms.cryptoKeyEncrypterDecrypter` on it. Default: Google's own keys."""
    labels: NotRequired[dict[str, str]]
    """More labels for the cluster and its bills."""
    maintenance: NotRequired[MaintenanceArgs]
    """When GKE may upgrade. Default Saturday and Sunday from 02:00 UTC for 8 hours."""
    min_version: NotRequired[str]
    """Oldest GKE of the control plane, such as `1.36`, which is the newest patch of it that the
    channel has. Default: what the channel gives to new clusters."""
    node_account_id: NotRequired[str]
    """Account id of the node service account. Default `<cluster name>-nodes`."""
    node_zones: NotRequired[list[str]]
    """Zones nodes may be in. Default: what GKE chooses in the region."""
    public_nodes: NotRequired[bool]
    """Give nodes public addresses. Default no."""
    release_channel: NotRequired[str]
    """`rapid`, `regular`, `stable` or `extended`. Default `regular`."""
    shared_folders: NotRequired[bool]
    """Run the driver of Filestore, which `SharedFolder` needs. Default no."""
    system_pool: NotRequired[SystemPoolArgs]
    """The pool without accelerators. Standard only."""
    traces: NotRequired[bool]
    """Run Managed OpenTelemetry, which takes spans and hands them to Cloud Trace. Default no."""


class InferenceCluster(pulumi.ComponentResource):
    """A Standard or Autopilot cluster with its node service account and system pool.

    Private nodes behind a DNS endpoint that IAM guards, Workload Identity, Dataplane V2, Gateway
    API, managed Prometheus, shielded nodes, image streaming, a release channel and deletion
    protection are on; anonymous RBAC bindings and the kubelet's read-only port are off.
    """

    cluster_id: pulumi.Output[str]
    """`projects/P/locations/L/clusters/NAME`."""
    cluster_name: pulumi.Output[str]
    """Name of the cluster."""
    endpoint: pulumi.Output[str]
    """DNS name of the control plane."""
    kubeconfig: pulumi.Output[str]
    """For `pulumi_kubernetes.Provider`; it holds no secret."""
    location: pulumi.Output[str]
    """Region or zone of the cluster."""
    node_service_account: pulumi.Output[str]
    """E-mail of the account nodes run as, known in a preview."""
    workload_pool: pulumi.Output[str]
    """`PROJECT.svc.id.goog`."""

    def __init__(
        self, name: str, args: InferenceClusterArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:InferenceCluster", name, {}, opts)
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
        # Through the id, unknown until the cluster exists: a preview never asks for the name.
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
        standard = not settings.is_autopilot  # Autopilot refuses what it decides itself
        return container.Cluster(
            name,
            addons_config=addons(shared_folders=args.get("shared_folders", False)),
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
            enable_shielded_nodes=True if standard else None,
            gateway_api_config={"channel": "CHANNEL_STANDARD"},
            initial_node_count=1 if standard else None,
            ip_allocation_policy={
                "cluster_secondary_range_name": args["pods_range"],
                "services_secondary_range_name": args["services_range"],
            },
            location=settings.location,
            logging_config={"enable_components": ["SYSTEM_COMPONENTS", "WORKLOADS"]},
            managed_opentelemetry_config={"scope": MANAGED_SCOPE} if args.get("traces") else None,
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
            node_pool_defaults={"node_config_defaults": NODE_DEFAULTS} if standard else None,
            pod_autoscaling={"hpa_profile": "PERFORMANCE"},
            private_cluster_config={"enable_private_nodes": not settings.public_nodes},
            project=args["project"],
            rbac_binding_config={
                "enable_insecure_binding_system_authenticated": False,
                "enable_insecure_binding_system_unauthenticated": False,
            },
            release_channel={"channel": settings.release_channel},
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
    """Returns the DNS name of the control plane from what the cluster reports."""
    dns = config.dns_endpoint_config
    if dns is None or dns.endpoint is None:
        raise ValueError("the cluster reports no DNS endpoint")
    return dns.endpoint
