"""Capacity: named lists of rungs, tried from first to last."""

from enum import StrEnum

from pydantic import Field

from infra.stack.fields import BootDisk, MachineType, Name, ProjectId, StackModel, Topology, Zone


class Accelerator(StrEnum):
    """Accelerators that a rung can request."""

    TPU_V5E = "tpu-v5e"
    TPU_V6E = "tpu-v6e"
    TPU7X = "tpu7x"
    L4 = "nvidia-l4"
    A100_40GB = "nvidia-a100-40gb"
    A100_80GB = "nvidia-a100-80gb"
    H100 = "nvidia-h100-80gb"
    H100_MEGA = "nvidia-h100-mega-80gb"
    H200 = "nvidia-h200-141gb"
    B200 = "nvidia-b200"
    RTX_PRO_6000 = "nvidia-rtx-pro-6000"

    @property
    def is_tpu(self) -> bool:
        """Whether a pod requests it as `google.com/tpu`."""
        return self.value.startswith("tpu")


class Provisioning(StrEnum):
    """How the VMs of a rung are purchased."""

    RESERVATION = "reservation"
    ON_DEMAND = "on-demand"
    FLEX_START = "flex-start"
    SPOT = "spot"
    CALENDAR = "calendar"

    @property
    def is_reserved(self) -> bool:
        """Whether the rung consumes a named reservation."""
        return self in {Provisioning.RESERVATION, Provisioning.CALENDAR}


class NodeNetwork(StrEnum):
    """What connects the GPU nodes of a model."""

    RDMA = "rdma"
    TCPX = "tcpx"
    TCPXO = "tcpxo"
    TCP = "tcp"


class Placement(StrEnum):
    """Where in a zone the nodes of a rung are."""

    COMPACT = "compact"
    ANY = "any"


class Rung(StackModel):
    """One machine type with one provisioning model."""

    accelerator: Accelerator
    """Accelerator of the rung."""
    provisioning: Provisioning
    """Provisioning model of the VMs. `calendar` consumes a reservation that a future reservation
    created."""
    topology: Topology | None = None
    """Topology of the TPU slice, such as 2x2. Required for TPUs, not allowed for GPUs."""
    count: int | None = Field(default=None, ge=1, le=16)
    """GPUs per node. Required for GPUs, not allowed for TPUs."""
    hosts: int | None = Field(default=None, ge=1, le=16)
    """GPU nodes per replica, 1 by default. Not allowed for TPUs, whose topology determines it."""
    network: NodeNetwork | None = None
    """Network between the GPU nodes of a replica, or between prefill and decode: rdma uses the RDMA
    interfaces of A3 Ultra and A4 machines and is the default where models need it; tcpx uses the
    interfaces of A3 High machines with eight GPUs and tcpxo those of A3 Mega machines, and both
    require node_pools and `ranges.accelerators`; tcp uses the interface of the node. One of the
    last three is required when a model needs RDMA that the machine does not have."""
    placement: Placement | None = None
    """Placement of GPU nodes in their zone: compact places the nodes of the capacity close to each
    other and is the default with network rdma, unless the rung is reserved or the capacity has
    node_pools; any is the default otherwise. A change replaces node pools of the stack, with all
    their nodes at once. Not allowed for TPUs, whose slices are placed as a whole."""
    machine_type: MachineType | None = None
    """Machine type, if the accelerator and count allow more than one."""
    reservation: Name | None = None
    """Name of the reservation. Required for `reservation` and `calendar`, otherwise not allowed."""
    reservation_project: ProjectId | None = None
    """Project that owns the reservation. By default, the platform's project."""
    reservation_zones: tuple[Zone, ...] | None = Field(default=None, min_length=1)
    """Zones of the reservation. The rung exists only in their regions."""
    zones: tuple[Zone, ...] | None = Field(default=None, min_length=1)
    """Zones to use, for rungs that are not reserved. The rung exists only in their regions. By
    default, every zone of a region."""
    allow_unlisted_zones: bool = False
    """Whether to allow zones that the accelerator catalog of this release does not list."""
    boot_disk_type: BootDisk | None = None
    """Boot disk type of the nodes. By default, GKE's default for the machine type."""
    max_run_hours: int | None = Field(default=None, ge=1, le=168)
    """Maximum run time of a flex-start VM in hours, up to 168."""

    @property
    def named_zones(self) -> tuple[Zone, ...] | None:
        """Zones that the rung names, in either field."""
        return self.reservation_zones or self.zones

    def is_in(self, region: str) -> bool:
        """Return whether a region has the rung: it names no zones, or one in the region."""
        zones = self.named_zones
        return zones is None or any(zone.rpartition("-")[0] == region for zone in zones)


class NodePools(StackModel):
    """Node pools that the stack creates, one per rung. By default, GKE creates them on demand."""

    max_nodes: int = Field(ge=1, le=1000)
    """Maximum nodes per pool."""
    min_nodes: int = Field(default=0, ge=0, le=1000)
    """Minimum nodes per pool."""
    max_surge: int = Field(default=0, ge=0, le=20)
    """Nodes that an upgrade adds before it removes others. Each needs spare capacity."""
    max_unavailable: int = Field(default=1, ge=0, le=20)
    """Nodes that an upgrade may remove at a time. At least 1 if `max_surge` is 0."""


class Capacity(StackModel):
    """Rungs, in the order in which GKE tries them."""

    rungs: tuple[Rung, ...] = Field(min_length=1, max_length=10)
    """Rungs in order of preference. Ten is the practical limit of a compute class."""
    move_back: bool = False
    """Whether running replicas move back to an earlier rung when it has capacity again."""
    node_pools: NodePools | None = None
    """Creates the node pools with the stack, as models in the forms dual-container and dra require.
    By default, GKE creates them on demand."""
    image_cache: bool = False
    """Whether GPU nodes attach the boot disk of `storage.image_cache`, which contains the engine
    images. Not shown to work on TPU nodes."""

    def rungs_in(self, region: str) -> dict[int, Rung]:
        """Return the rungs that a region has, by their index in the list."""
        return {at: rung for at, rung in enumerate(self.rungs) if rung.is_in(region)}

    @property
    def is_mixed(self) -> bool:
        """Whether it has both TPU and GPU rungs."""
        return len({rung.accelerator.is_tpu for rung in self.rungs}) > 1
