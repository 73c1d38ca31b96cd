"""The inputs of `InferenceCluster`, and its validated settings with defaults."""

import re
from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict

import pulumi

from gke_inference.base.inputs import name_of, one_of, user_labels, whole
from gke_inference.catalogue.boot_disks import boot_disks
from gke_inference.catalogue.names import check_name
from gke_inference.catalogue.quotas import boot_disk
from gke_inference.catalogue.system_pool import MACHINE_TYPE, MOST_NODES

DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")

_ZONE = re.compile(r"[a-z]+-[a-z]+\d+-[a-z0-9]+")
_REGION = re.compile(r"[a-z]+-[a-z]+\d+")
_VERSION = re.compile(r"1\.\d+(\.\d+(-gke\.\d+)?)?")
_MOST_FALLBACKS = 4


class MaintenanceArgs(TypedDict):
    """When GKE may upgrade the control plane and nodes.

    GKE needs at least 48 hours in every 32 days, in windows of at least 4 hours
    (cloud.google.com/kubernetes-engine/docs/concepts/maintenance-windows-and-exclusions).
    """

    days: list[str]
    """Days of the week: `MO`, `TU`, `WE`, `TH`, `FR`, `SA`, `SU`."""
    hours: int
    """Length of the window in hours, 4 to 24."""
    start_hour: int
    """Hour of the day at which the window starts, in UTC, 0 to 23."""


class SystemPoolArgs(TypedDict):
    """The node pool without accelerators. Counts are across all zones."""

    disk_type: NotRequired[str]
    """Boot disk type. Default: `hyperdisk-balanced` if the machine type boots only from it, such as
    N4 and C4; otherwise `pd-balanced`."""
    fallback: NotRequired[list[str]]
    """Up to 4 machine types, each with its own pool, which stays empty until the first pool's
    machine type is out of stock. Default: none."""
    machine_type: NotRequired[str]
    """Machine type. Default: `e2-standard-4`."""
    max_nodes: NotRequired[int]
    """Maximum number of nodes. Default: 6."""
    min_nodes: NotRequired[int]
    """Minimum number of nodes, at least 1. Default: 1."""


class InferenceClusterArgs(TypedDict):
    """Inputs of `InferenceCluster`."""

    cluster_name: str
    """Name of the cluster."""
    location: str
    """A region, or a zone for a zonal cluster, which has a single control plane."""
    mode: str
    """`standard` or `autopilot`."""
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
    authorized_networks: NotRequired[dict[str, str]]
    """Also exposes the control plane on an IP address, to these CIDR ranges by name. Default: none,
    access is only through the DNS endpoint and IAM."""
    auto_provisioning_limits: NotRequired[dict[str, int]]
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
    maintenance: NotRequired[MaintenanceArgs]
    """When GKE may upgrade. Default: Saturday and Sunday from 02:00 UTC, for 8 hours."""
    min_version: NotRequired[str]
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
    release_channel: NotRequired[str]
    """`rapid`, `regular`, `stable` or `extended`. Default: `regular`."""
    shared_folders: NotRequired[bool]
    """Whether to enable the Filestore CSI driver, which `SharedFolder` needs. Default: false."""
    system_pool: NotRequired[SystemPoolArgs]
    """Node pool without accelerators. Standard mode only."""
    traces: NotRequired[bool]
    """Whether to enable Managed OpenTelemetry, which forwards spans to Cloud Trace. Default:
    false."""


DEFAULT_MAINTENANCE: MaintenanceArgs = {"days": ["SA", "SU"], "hours": 8, "start_hour": 2}


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
    maintenance: MaintenanceArgs
    min_version: str | None
    node_account_id: str
    node_zones: list[str] | None
    public_nodes: bool
    release_channel: str
    system_disk_type: str
    system_fallback: tuple[str, ...]
    system_machine_type: str
    system_max_nodes: int
    system_min_nodes: int


def cluster_settings(args: InferenceClusterArgs) -> ClusterSettings:
    """Return the validated settings.

    Raises:
        pulumi.InputPropertyError: A setting breaks a rule.
    """
    cluster_name = name_of(args, "cluster_name", "cluster")
    mode = one_of(args, "mode", ("standard", "autopilot"))
    channel = one_of(args, "release_channel", ("rapid", "regular", "stable", "extended"), "regular")
    is_autopilot = mode == "autopilot"
    for field, name in (
        ("system_pool", "systemPool"),
        ("auto_provisioning_limits", "autoProvisioningLimits"),
    ):
        if is_autopilot and args.get(field) is not None:
            raise pulumi.InputPropertyError(
                name, "must not be set in Autopilot mode, where GKE creates every node"
            )
    if is_autopilot and args.get("multi_networking"):
        raise pulumi.InputPropertyError("multiNetworking", "must be false in Autopilot mode")
    pool: SystemPoolArgs = args.get("system_pool") or {}
    least = _system_nodes(pool, "min_nodes", 1)
    most = _system_nodes(pool, "max_nodes", max(MOST_NODES, least))
    if most < least:
        raise pulumi.InputPropertyError(
            "systemPool.maxNodes", f"must be at least minNodes ({least}), got {most}"
        )
    return ClusterSettings(
        authorized_networks=dict(args.get("authorized_networks") or {}),
        auto_provisioning_limits=_limits(args),
        cluster_name=cluster_name,
        control_plane_from_internet=args.get("control_plane_from_internet", True),
        deletion_protection=args.get("deletion_protection", True),
        hold_upgrades=args.get("hold_upgrades", False),
        is_autopilot=is_autopilot,
        labels=user_labels(args, "cluster"),
        location=_location(args, is_autopilot),
        maintenance=_maintenance(args.get("maintenance") or DEFAULT_MAINTENANCE),
        min_version=_min_version(args),
        node_account_id=_node_account_id(args, cluster_name),
        node_zones=_node_zones(args),
        public_nodes=args.get("public_nodes", False),
        release_channel=channel.upper(),
        system_disk_type=_disk_type(pool),
        system_fallback=_fallback(pool),
        system_machine_type=pool.get("machine_type", MACHINE_TYPE),
        system_max_nodes=most,
        system_min_nodes=least,
    )


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


def _system_nodes(pool: SystemPoolArgs, field: str, default: int) -> int:
    return whole(pool, field, default, least=1, most=1000, where="systemPool")


def _disk_type(pool: SystemPoolArgs) -> str:
    machine_type = pool.get("machine_type", MACHINE_TYPE)
    given, taken = pool.get("disk_type"), boot_disks(machine_type)
    if given is not None and given not in taken:
        rule = f"must be a boot disk type of {machine_type} ({', '.join(taken)})"
        raise pulumi.InputPropertyError("systemPool.diskType", f"{rule}, got {given!r}")
    return given or boot_disk(machine_type)[0]


def _fallback(pool: SystemPoolArgs) -> tuple[str, ...]:
    types = tuple(pool.get("fallback") or ())
    first = pool.get("machine_type", MACHINE_TYPE)
    if len(set(types)) != len(types) or first in types or len(types) > _MOST_FALLBACKS:
        raise pulumi.InputPropertyError(
            "systemPool.fallback",
            f"must be at most {_MOST_FALLBACKS} different machine types beside {first},"
            f" got {list(types)!r}",
        )
    return types


def _min_version(args: InferenceClusterArgs) -> str | None:
    version = args.get("min_version")
    if version is not None and not _VERSION.fullmatch(version):
        raise pulumi.InputPropertyError(
            "minVersion", f"must be a version such as 1.36 or 1.36.4-gke.1391002, got {version!r}"
        )
    return version


def _limits(args: InferenceClusterArgs) -> dict[str, int]:
    limits = args.get("auto_provisioning_limits") or {}
    where = "autoProvisioningLimits"
    return {
        kind: whole(limits, kind, 0, least=1, most=10_000_000, where=where)
        for kind in sorted(limits)
    }


def _maintenance(window: MaintenanceArgs) -> MaintenanceArgs:
    days: list[Any] = list(window["days"])
    if not days or len(set(days)) != len(days) or not set(days) <= set(DAYS):
        raise pulumi.InputPropertyError(
            "maintenance.days", f"must be different days of {', '.join(DAYS)}, got {days!r}"
        )
    hours = whole(window, "hours", 0, least=4, most=24, where="maintenance")
    start_hour = whole(window, "start_hour", -1, least=0, most=23, where="maintenance")
    if 4 * hours * len(days) < 48:
        raise pulumi.InputPropertyError(
            "maintenance",
            "must leave GKE 48 hours in 32 days, got "
            f"{len(days)} x {hours} hours a week, {4 * hours * len(days)} hours",
        )
    return {"days": days, "hours": hours, "start_hour": start_hour}
