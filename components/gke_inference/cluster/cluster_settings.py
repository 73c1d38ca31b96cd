"""The inputs of `InferenceCluster`, and its settings with defaults."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NotRequired, TypedDict

import pulumi
from pydantic import PositiveInt

from gke_inference.base.checked import keep
from gke_inference.base.inputs import name_of, user_labels
from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.names import check_name
from gke_inference.catalogue.quotas import boot_disk
from gke_inference.settings.fields import Cidr, GkeVersion

from .rules import check_maintenance, check_mode, check_networks, check_system_pool
from .settings import (
    ClusterMode,
    Maintenance,
    ReleaseChannel,
    SystemPoolSettings,
    usual_maintenance,
)

_ZONE = re.compile(r"[a-z]+-[a-z]+\d+-[a-z0-9]+")
_REGION = re.compile(r"[a-z]+-[a-z]+\d+")


class InferenceClusterArgs(TypedDict):
    """Inputs of `InferenceCluster`."""

    cluster_name: str
    """Name of the cluster."""
    location: str
    """A region, or a zone for a zonal cluster, which has a single control plane."""
    mode: ClusterMode
    """Who manages the nodes."""
    network: pulumi.Input[str]
    """VPC network: `Network.network_id`."""
    pods_range: pulumi.Input[str]
    """Secondary range for pods: `Network.pods_range_name`."""
    project: pulumi.Input[str]
    """Project of the cluster."""
    services_range: pulumi.Input[str]
    """Secondary range for services: `Network.services_range_name`."""
    subnetwork: pulumi.Input[str]
    """Node subnet: `Network.subnetworks` of the cluster's region."""
    authorized_networks: NotRequired[dict[str, Cidr]]
    """Also exposes the control plane on an IP address, to these CIDR ranges by name. Default: none,
    access is only through the DNS endpoint and IAM."""
    auto_provisioning_limits: NotRequired[dict[str, PositiveInt]]
    """Turns on cluster-wide node auto-provisioning with these limits by resource: `cpu` (cores),
    `memory` (GiB), `nvidia-l4`, `tpu-v6e-slice` (chips). Standard mode only. Default: off, since
    compute classes create pools without it from GKE 1.33.3-gke.1136000."""
    boot_disk_key: NotRequired[pulumi.Input[str]]
    """Cloud KMS key for the boot disks of the system pool and of auto-provisioned nodes; Compute
    Engine's service agent must be allowed to use it. Default: Google-managed keys."""
    control_plane_from_internet: NotRequired[bool]
    """Whether the DNS endpoint is reachable from outside the VPC, subject to IAM. Default: true."""
    deletion_protection: NotRequired[bool]
    """Whether to refuse the deletion or replacement of the cluster. Default: true."""
    hold_upgrades: NotRequired[bool]
    """Whether to defer node and minor version upgrades until the version's end of support. Control
    plane patches continue. Default: false."""
    image_admission: NotRequired[bool]
    """Whether to evaluate images against the project's Binary Authorization policy. Default:
    false."""
    kms_key: NotRequired[pulumi.Input[str]]
    """Cloud KMS key that encrypts Kubernetes Secrets; GKE's service agent needs
    `roles/cloudkms.cryptoKeyEncrypterDecrypter` on it. Default: Google-managed keys."""
    labels: NotRequired[dict[str, str]]
    """Additional labels for the cluster, which also appear in billing."""
    lustre: NotRequired[bool]
    """Whether to enable the Managed Lustre CSI driver, which `LustreFolder` needs. Default:
    false."""
    maintenance: NotRequired[Maintenance]
    """When GKE may upgrade. Default: Saturday and Sunday from 02:00 UTC, for 8 hours."""
    min_version: NotRequired[GkeVersion]
    """Minimum GKE version of the control plane. A minor version, such as `1.36`, means its newest
    patch in the channel. Default: the channel's default for new clusters."""
    multi_networking: NotRequired[bool]
    """Whether node pools can have `additional_networks`, for pods on several networks. Standard
    mode only. Default: false."""
    node_account_id: NotRequired[str]
    """ID of the node service account. Default: `<cluster name>-nodes`."""
    node_zones: NotRequired[list[str]]
    """Zones of the nodes. Default: GKE's choice in the region."""
    public_nodes: NotRequired[bool]
    """Whether nodes have external IP addresses. Default: false."""
    ray_operator: NotRequired[bool]
    """Whether to run GKE's Ray operator (KubeRay), which a `ModelServer` with `spanning: kuberay`
    needs. Default: false."""
    release_channel: NotRequired[ReleaseChannel]
    """Release channel for GKE versions. Default: `regular`."""
    shared_folders: NotRequired[bool]
    """Whether to enable the Filestore CSI driver, which `SharedFolder` needs. Default: false."""
    system_pool: NotRequired[SystemPoolSettings]
    """Node pool without accelerators. Standard mode only."""
    traces: NotRequired[bool]
    """Whether to enable Managed OpenTelemetry, which forwards spans to Cloud Trace. Default:
    false."""


@dataclass(frozen=True)
class ClusterSettings:
    """Cluster settings with all defaults."""

    authorized_networks: dict[str, str]
    auto_provisioning_limits: dict[str, int]
    cluster_name: str
    control_plane_from_internet: bool
    deletion_protection: bool
    hold_upgrades: bool
    is_autopilot: bool
    labels: dict[str, str]
    location: str
    maintenance: Maintenance
    min_version: str | None
    node_account_id: str
    node_zones: list[str] | None
    public_nodes: bool
    release_channel: ReleaseChannel
    system_pool: SystemPoolSettings

    @property
    def system_disk_type(self) -> str:
        """Boot disk type of the system pool."""
        pool = self.system_pool
        given = pool.boot_disk_type
        return boot_disk(pool.machine_type)[0] if given is None else given.value


def cluster_settings(args: InferenceClusterArgs) -> ClusterSettings:
    """Return the settings with all defaults.

    Args:
        args: Inputs with their types.

    Raises:
        pulumi.InputPropertyError: A setting breaks a rule.
    """
    cluster_name = name_of(args, "cluster_name", "cluster")
    is_autopilot = args["mode"] == ClusterMode.AUTOPILOT
    if is_autopilot and args.get("multi_networking"):
        raise pulumi.InputPropertyError("multiNetworking", "must be false in Autopilot mode")
    keep(_problems(args))
    return ClusterSettings(
        authorized_networks=args.get("authorized_networks", {}),
        auto_provisioning_limits=args.get("auto_provisioning_limits", {}),
        cluster_name=cluster_name,
        control_plane_from_internet=args.get("control_plane_from_internet", True),
        deletion_protection=args.get("deletion_protection", True),
        hold_upgrades=args.get("hold_upgrades", False),
        is_autopilot=is_autopilot,
        labels=user_labels(args, "cluster"),
        location=_location(args, is_autopilot),
        maintenance=args.get("maintenance", usual_maintenance()),
        min_version=args.get("min_version"),
        node_account_id=_node_account_id(args, cluster_name),
        node_zones=_node_zones(args),
        public_nodes=args.get("public_nodes", False),
        release_channel=args.get("release_channel", ReleaseChannel.REGULAR),
        system_pool=args.get("system_pool", SystemPoolSettings()),
    )


def _problems(args: InferenceClusterArgs) -> Iterator[InputError]:
    yield from check_mode("", args["mode"], args)
    yield from check_networks("authorized_networks", args.get("authorized_networks", {}))
    if "maintenance" in args:
        yield from check_maintenance("maintenance", args["maintenance"])
    if "system_pool" in args:
        yield from check_system_pool("system_pool", args["system_pool"])


def _location(args: InferenceClusterArgs, is_autopilot: bool) -> str:
    location = args["location"]
    if _REGION.fullmatch(location) or (_ZONE.fullmatch(location) and not is_autopilot):
        return location
    kinds = "a region in autopilot mode" if is_autopilot else "a region or a zone"
    raise pulumi.InputPropertyError("location", f"must be {kinds}, got {location!r}")


def _node_zones(args: InferenceClusterArgs) -> list[str] | None:
    zones = args.get("node_zones")
    if not zones:
        return None
    location = args["location"]
    region = location if _REGION.fullmatch(location) else location.rpartition("-")[0]
    for zone in zones:
        if not zone.startswith(f"{region}-") or not _ZONE.fullmatch(zone):
            raise pulumi.InputPropertyError("nodeZones", f"must be zones of {region}, got {zone!r}")
    # A zonal cluster's own zone is always one of its node zones and may not be repeated.
    others = [zone for zone in zones if zone != location]
    return sorted(others) or None


def _node_account_id(args: InferenceClusterArgs, cluster_name: str) -> str:
    if args.get("node_account_id") is not None:
        return name_of(args, "node_account_id", "service_account")
    try:
        return check_name("service_account", f"{cluster_name}-nodes")
    except ValueError as error:
        raise pulumi.InputPropertyError(
            "clusterName", f"{error}; give 'nodeAccountId' or a shorter name"
        ) from error
