"""The inputs of `AcceleratorPool`, and its validated settings with defaults.

Rules by consumption option: docs.cloud.google.com/kubernetes-engine/docs/concepts/dws and
cluster-toolkit @1047080 modules/compute/gke-node-pool/main.tf.
"""

from dataclasses import dataclass
from typing import NotRequired, TypedDict

import pulumi

from gke_inference.base.checked import checked, keep
from gke_inference.base.inputs import camel, name_of, rung_of, user_labels
from gke_inference.catalogue.accelerators import (
    TPU_GENERATIONS,
    region_of,
)
from gke_inference.catalogue.node_networks import INTERFACE_NETWORKS, interface_network
from gke_inference.catalogue.rung_settings import RungArgs
from gke_inference.catalogue.rungs import CLAIMED_PROVISIONING, Rung

from .node_settings import NodeSettings, check_nodes
from .settings import (
    MAX_SURGE,
    MAX_UNAVAILABLE,
    BlueGreen,
    BootDiskGib,
    GpuDriver,
    PoolFloor,
    PoolNodes,
    UpgradeNodes,
    check_blue_green,
    check_limits,
    check_upgrades,
)

_DRIVERS = {
    GpuDriver.LATEST: "LATEST",
    GpuDriver.DEFAULT: "DEFAULT",
    GpuDriver.DISABLED: "INSTALLATION_DISABLED",
}
RESERVED = ("reservation", "calendar")
"""Consumption options that use a reservation."""


class AdditionalNetworkArgs(TypedDict):
    """A network of additional interfaces of nodes."""

    network: pulumi.Input[str]
    """Name of the VPC network: one of `AcceleratorNetworks.networks`."""
    subnetwork: pulumi.Input[str]
    """Name of its subnet in the region of the cluster: the same one of
    `AcceleratorNetworks.subnetworks`."""


class AcceleratorPoolArgs(TypedDict):
    """Inputs of `AcceleratorPool`."""

    cluster: pulumi.Input[str]
    """Name of the cluster: `InferenceCluster.cluster_name`."""
    location: str
    """Region or zone of the cluster."""
    node_service_account: pulumi.Input[str]
    """Email of the node service account: `InferenceCluster.node_service_account`."""
    pool_name: str
    """Name of the pool, for `node_pools` of a rung."""
    project: pulumi.Input[str]
    """Project of the cluster."""
    rung: RungArgs
    """Accelerator, shape and provisioning model."""
    additional_networks: NotRequired[list[AdditionalNetworkArgs]]
    """Networks of the accelerators' interfaces, one for each. Required for a rung with network
    `tcpx` or `tcpxo`, in a cluster with `multi_networking`; otherwise, not allowed."""
    blue_green: NotRequired[BlueGreen]
    """Blue-green upgrades, which need as many machines again. Not allowed with `max_surge`,
    `max_unavailable`, slices, compact nodes, flex-start and reserved rungs."""
    boot_disk_key: NotRequired[pulumi.Input[str]]
    """Cloud KMS key for the boot disks. Default: Google-managed keys."""
    boot_disk_gib: NotRequired[BootDiskGib]
    """Size of the boot disk in GiB. Default: 100."""
    boot_disk_type: NotRequired[str]
    """Boot disk type. Default: that of the rung, or GKE's default for the machine type."""
    compute_class: NotRequired[str]
    """Class that pods select to run here. The pool gets its label and taint."""
    device_claims: NotRequired[bool]
    """Whether the DRA drivers of `DeviceDrivers` manage the chips: pods claim them as devices
    instead of requesting `google.com/tpu` or `nvidia.com/gpu`. Not allowed with several hosts or
    flex-start. Default: false."""
    gpu_driver: NotRequired[GpuDriver]
    """GPU driver. Default: `latest`, or `disabled` with
    `device_claims`, because GKE installs no driver then."""
    image_cache: NotRequired[pulumi.Input[str]]
    """Disk image with container images, for GPU nodes: `NodeImageCache.disk_image`."""
    labels: NotRequired[dict[str, str]]
    """Additional labels for the VMs, which also appear in billing."""
    max_nodes: NotRequired[PoolNodes]
    """Maximum number of nodes: across all zones, or per zone for a TPU or flex-start pool.
    Required, except for a multi-host slice, which has all of its nodes or none."""
    max_surge: NotRequired[UpgradeNodes]
    """Nodes that an upgrade adds before it removes others. Default: 0, since scarce chips
    have no spare."""
    max_unavailable: NotRequired[UpgradeNodes]
    """Nodes that an upgrade may remove at a time. 0 requires `maxSurge`. Default: 1."""
    min_nodes: NotRequired[PoolFloor]
    """Minimum number of nodes. Flex-start requires 0. Default: 0."""
    nodes: NotRequired[NodeSettings]
    """Kubelet, kernel and local SSDs of the nodes."""
    placement_policy: NotRequired[pulumi.Input[str]]
    """Placement policy for a rung with `placement` compact: `CompactPlacement.policy_name`.
    Default: a policy that GKE creates for this pool alone."""
    public_nodes: NotRequired[bool]
    """Whether nodes have external IP addresses. Default: false."""
    queued: NotRequired[bool]
    """Flex-start only: whether to create nodes for a ProvisioningRequest, all of them or none.
    Default: false."""


@dataclass(frozen=True)
class PoolSettings:
    """Pool settings with all defaults."""

    additional_networks: list[AdditionalNetworkArgs]
    blue_green: BlueGreen | None
    boot_disk_gib: int
    boot_disk_type: str | None
    compute_class: str | None
    device_claims: bool
    gpu_driver: str
    initial_nodes: int
    labels: dict[str, str]
    local_ssds: int
    location: str
    max_nodes: int
    max_surge: int
    max_unavailable: int
    min_nodes: int
    nodes: NodeSettings | None
    pool_name: str
    public_nodes: bool
    queued: bool
    region: str
    rung: Rung
    slice_placement: str | None
    zones: tuple[str, ...]

    @property
    def node_locations(self) -> list[str] | None:
        """Zones of the pool, if they differ from the cluster's."""
        return list(self.zones) if self.zones not in ((), (self.location,)) else None

    @property
    def counts_per_zone(self) -> bool:
        """Whether limits are per zone.

        Totals fail for TPU and flex-start pools (cluster-toolkit modules/compute/gke-node-pool).
        """
        return self.rung.kind == "tpu" or self.rung.provisioning == "flex-start"


def pool_settings(args: AcceleratorPoolArgs) -> PoolSettings:
    """Return the validated settings.

    Raises:
        pulumi.InputPropertyError: A setting breaks a rule.
    """
    args = checked(AcceleratorPoolArgs, args)
    location = args["location"]
    is_zonal = location.count("-") == 2
    region = region_of(location) if is_zonal else location
    rung = rung_of(args["rung"], "rung", region=region)
    least, most = _node_range(args, rung)
    surge, unavailable = _upgrades(args)
    _check_compact(rung, most, surge if rung.has_surge else 0)
    zones = _zones(rung, location, is_zonal)
    per_zone = rung.kind == "tpu" or rung.provisioning == "flex-start"
    chip = rung.chip
    return PoolSettings(
        additional_networks=_additional_networks(args, rung),
        blue_green=_blue_green(args, rung),
        boot_disk_gib=args.get("boot_disk_gib", 100),
        boot_disk_type=args.get("boot_disk_type") or rung.boot_disk_type,
        compute_class=_compute_class(args),
        device_claims=_device_claims(args, rung),
        gpu_driver=_gpu_driver(args, rung),
        initial_nodes=least if per_zone or len(zones) == 1 else 0,
        labels=user_labels(args, "accelerators"),
        local_ssds=rung.machine.local_ssds,
        location=location,
        max_nodes=most,
        max_surge=surge,
        max_unavailable=unavailable,
        min_nodes=least,
        nodes=_nodes(args, rung),
        pool_name=name_of(args, "pool_name", "node_pool"),
        public_nodes=args.get("public_nodes", False),
        queued=_queued(args, rung),
        region=region,
        rung=rung,
        slice_placement=chip.slice_placement,
        zones=zones,
    )


def _node_range(args: AcceleratorPoolArgs, rung: Rung) -> tuple[int, int]:
    least, most = args.get("min_nodes", 0), args.get("max_nodes")
    if rung.is_slice:
        hosts = rung.hosts
        whole = f"the hosts of {rung.accelerator} {rung.topology}, which come and go together"
        if most not in (None, hosts):
            raise pulumi.InputPropertyError("maxNodes", f"must be {hosts}, {whole}, got {most}")
        if least not in (0, hosts):
            rule = f"must be 0 or {hosts}, {whole}, got {least}"
            raise pulumi.InputPropertyError("minNodes", rule)
        return least, hosts
    if most is None:
        raise pulumi.InputPropertyError("maxNodes", "must be 1 to 1000, got none")
    if rung.provisioning == "flex-start" and least:
        raise pulumi.InputPropertyError("minNodes", f"must be 0 with flex-start, got {least}")
    keep(check_limits("", least, most))
    return least, most


def _blue_green(args: AcceleratorPoolArgs, rung: Rung) -> BlueGreen | None:
    given = args.get("blue_green")
    if given is None:
        return None
    for name in ("max_surge", "max_unavailable"):
        if name in args:
            rule = "must not be set with blueGreen, which has its own batches"
            raise pulumi.InputPropertyError(camel(name), rule)
    keep(check_blue_green("blue_green", rung))
    return given


def _nodes(args: AcceleratorPoolArgs, rung: Rung) -> NodeSettings | None:
    nodes = args.get("nodes")
    if nodes is not None:
        has_cache = "image_cache" in args
        keep(check_nodes("nodes", nodes, [rung], has_pools=True, has_image_cache=has_cache))
    return nodes


def _check_compact(rung: Rung, most: int, surge: int) -> None:
    limit = rung.chip.compact
    if rung.placement == "compact" and limit is not None and most + surge > limit.most_nodes:
        rule = f"must be at most {limit.most_nodes - surge} for compact nodes"
        rule += f" with maxSurge {surge}" if surge else ""
        raise pulumi.InputPropertyError("maxNodes", f"{rule}, got {most}")


def _upgrades(args: AcceleratorPoolArgs) -> tuple[int, int]:
    surge = args.get("max_surge", MAX_SURGE)
    unavailable = args.get("max_unavailable", MAX_UNAVAILABLE)
    keep(check_upgrades("", surge, unavailable))
    return surge, unavailable


def _zones(rung: Rung, location: str, is_zonal: bool) -> tuple[str, ...]:
    """Return the zones of the pool, or none for all zones of the cluster."""
    if rung.provisioning in RESERVED:
        zones, field = rung.reservation_zones, "rung.reservationZones"
    else:
        zones, field = rung.zones, "rung.zones"
    if is_zonal and not zones:
        return (location,)
    if rung.provisioning in RESERVED and not zones:
        raise pulumi.InputPropertyError(
            field, "must be the zones of the reservation in a regional cluster, got none"
        )
    if rung.is_slice and len(zones) != 1:
        raise pulumi.InputPropertyError(
            field, f"must be one zone: a slice never spans zones, got {len(zones)}"
        )
    if rung.network == "rdma" and len(zones) != 1:
        raise pulumi.InputPropertyError(
            field, f"must be one zone: RDMA does not cross zones, got {len(zones)}"
        )
    if rung.placement == "compact" and len(zones) != 1:
        raise pulumi.InputPropertyError(
            field, f"must be one zone for compact nodes, got {len(zones)}"
        )
    return tuple(sorted(zones))


def _additional_networks(args: AcceleratorPoolArgs, rung: Rung) -> list[AdditionalNetworkArgs]:
    given = list(args.get("additional_networks") or [])
    if rung.network not in INTERFACE_NETWORKS:
        if given:
            words = " or ".join(INTERFACE_NETWORKS)
            rule = f"must not be set for a rung without network {words}, got {len(given)} networks"
            raise pulumi.InputPropertyError("additionalNetworks", rule)
        return []
    count = interface_network(rung.network).interfaces
    if len(given) != count:
        rule = f"must be {count} networks, one for each interface of {rung.machine_type}"
        raise pulumi.InputPropertyError("additionalNetworks", f"{rule}, got {len(given)}")
    return given


def _compute_class(args: AcceleratorPoolArgs) -> str | None:
    name = args.get("compute_class")
    if name is not None and name.startswith(("gke", "autopilot")):
        raise pulumi.InputPropertyError(
            "computeClass", f"must not begin with gke or autopilot, got {name!r}"
        )
    return name


def _gpu_driver(args: AcceleratorPoolArgs, rung: Rung) -> str:
    usual = GpuDriver.DISABLED if args.get("device_claims") else GpuDriver.LATEST
    driver = args.get("gpu_driver", usual)
    if rung.kind != "gpu" and "gpu_driver" in args:
        raise pulumi.InputPropertyError("gpuDriver", f"must not be set for {rung.accelerator}")
    if driver is not usual and args.get("device_claims"):
        raise pulumi.InputPropertyError(
            "gpuDriver", f"must be disabled with deviceClaims, got '{driver}'"
        )
    return _DRIVERS[driver]


def _device_claims(args: AcceleratorPoolArgs, rung: Rung) -> bool:
    """Returns whether DRA drivers have the chips, where somebody has shown that they can."""
    claims = args.get("device_claims", False)
    if claims and not rung.chips:
        rule = f"must be false without an accelerator, as on {rung.label}"
        raise pulumi.InputPropertyError("deviceClaims", rule)
    if claims and rung.is_multi_host:
        rule = f"must be false when a replica spans several hosts, as on {rung.label}"
        raise pulumi.InputPropertyError("deviceClaims", rule)
    if claims and rung.provisioning not in CLAIMED_PROVISIONING:
        known = ", ".join(CLAIMED_PROVISIONING)
        rule = f"must be false except with {known}, got a rung of {rung.provisioning}"
        raise pulumi.InputPropertyError("deviceClaims", rule)
    if claims and rung.kind == "tpu" and rung.accelerator not in TPU_GENERATIONS:
        known = ", ".join(sorted(TPU_GENERATIONS))
        rule = f"must be false: the TPU driver supports only {known}, got {rung.accelerator}"
        raise pulumi.InputPropertyError("deviceClaims", rule)
    return claims


def _queued(args: AcceleratorPoolArgs, rung: Rung) -> bool:
    queued = args.get("queued", False)
    if queued and rung.provisioning != "flex-start":
        raise pulumi.InputPropertyError(
            "queued", f"must be false with {rung.provisioning}: only flex-start nodes are queued"
        )
    if queued and rung.placement == "compact":
        raise pulumi.InputPropertyError(
            "rung.placement", "must be 'any' or unset for a queued pool, got 'compact'"
        )
    return queued
