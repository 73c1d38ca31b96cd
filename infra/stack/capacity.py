"""Capacity: named lists of rungs, tried from the first to the last."""

from enum import StrEnum

from pydantic import Field

from infra.stack.base.fields import (
    BootDisk,
    MachineType,
    Name,
    ProjectId,
    StackModel,
    Topology,
    Zone,
)


class Accelerator(StrEnum):
    """The accelerators a rung can ask for."""

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
        """Whether a pod asks for it as `google.com/tpu`."""
        return self.value.startswith("tpu")


class Provisioning(StrEnum):
    """How the machines of a rung are bought."""

    RESERVATION = "reservation"
    ON_DEMAND = "on-demand"
    FLEX_START = "flex-start"
    SPOT = "spot"
    CALENDAR = "calendar"

    @property
    def is_reserved(self) -> bool:
        """Whether the rung draws on a named reservation."""
        return self in {Provisioning.RESERVATION, Provisioning.CALENDAR}


class Rung(StackModel):
    """One kind of machine, bought in one way."""

    accelerator: Accelerator
    """Accelerator of the rung."""
    provisioning: Provisioning
    """How its machines are bought; calendar is a reservation that a future reservation made."""
    topology: Topology | None = None
    """Shape of the TPU slice, such as 2x2; required for a TPU, refused for a GPU."""
    count: int | None = Field(default=None, ge=1, le=16)
    """GPUs of one node; required for a GPU, refused for a TPU."""
    hosts: int | None = Field(default=None, ge=1, le=16)
    """GPU nodes that one replica spans, 1 by default; refused for a TPU, whose topology says it."""
    machine_type: MachineType | None = None
    """Machine type, where the accelerator and its count leave a choice."""
    reservation: Name | None = None
    """Name of the reservation; required for reservation and calendar, refused otherwise."""
    reservation_project: ProjectId | None = None
    """Project that owns the reservation; the platform's own project by default."""
    reservation_zones: tuple[Zone, ...] | None = Field(default=None, min_length=1)
    """Zones of the reservation; it is a rung only in their regions."""
    zones: tuple[Zone, ...] | None = Field(default=None, min_length=1)
    """Zones to use, for what is not reserved; it is a rung only in their regions. By default every
    zone of a region."""
    allow_unlisted_zones: bool = False
    """Trusts zones that are newer than this version's catalogue of accelerators."""
    boot_disk_type: BootDisk | None = None
    """Type of the nodes' boot disks; by default what GKE takes for the machine."""
    max_run_hours: int | None = Field(default=None, ge=1, le=168)
    """Hours a flex-start machine may run, 168 at most."""

    @property
    def named_zones(self) -> tuple[Zone, ...] | None:
        """The zones that the rung names, of whichever field."""
        return self.reservation_zones or self.zones

    def is_in(self, region: str) -> bool:
        """Whether a region has the rung: it names no zones, or one of the region."""
        zones = self.named_zones
        return zones is None or any(zone.rpartition("-")[0] == region for zone in zones)


class NodePools(StackModel):
    """Node pools made beforehand, one for each rung, instead of on demand by GKE."""

    max_nodes: int = Field(ge=1, le=1000)
    """Nodes a pool may grow to."""
    min_nodes: int = Field(default=0, ge=0, le=1000)
    """Nodes a pool never goes below."""
    max_surge: int = Field(default=0, ge=0, le=20)
    """Nodes that an upgrade adds before it takes others away; each needs spare capacity."""
    max_unavailable: int = Field(default=1, ge=0, le=20)
    """Nodes that an upgrade takes away at a time; at least 1 where max_surge is 0."""


class Capacity(StackModel):
    """Rungs in the order in which GKE tries them."""

    rungs: tuple[Rung, ...] = Field(min_length=1, max_length=10)
    """Rungs, the preferred one first; ten is the practical limit of a compute class."""
    move_back: bool = False
    """Whether running replicas move to an earlier rung when it has room again."""
    node_pools: NodePools | None = None
    """Makes the pools beforehand, as dual-container models need; GKE makes them otherwise."""
    image_cache: bool = False
    """Whether its GPU nodes carry the boot disk of `storage.image_cache`, with the engine images;
    nobody has shown one on a TPU node."""

    def rungs_in(self, region: str) -> dict[int, Rung]:
        """Return the rungs that a region has, by their place in the list."""
        return {at: rung for at, rung in enumerate(self.rungs) if rung.is_in(region)}

    @property
    def is_mixed(self) -> bool:
        """Whether it has both TPU and GPU rungs."""
        return len({rung.accelerator.is_tpu for rung in self.rungs}) > 1
