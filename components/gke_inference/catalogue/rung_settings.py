"""Settings of a rung: one shape of nodes with one provisioning model, as a user writes it."""

from typing import Annotated, Final

from pydantic import Field

from gke_inference.settings import OneOf, Settings
from gke_inference.settings.fields import (
    BootDisk,
    MachineType,
    Name,
    ProjectId,
    Topology,
    Zone,
)

from .accelerators import Provisioning, accelerator_names, region_of
from .calendar_mode import ReservationPeriod
from .hardware import CPU, hardware
from .node_networks import NodeNetwork
from .node_placement import NodePlacement

MAX_RUN_HOURS: Final = 168
"""Seven days, the maximum life of a flex-start node."""
MAX_HOSTS: Final = 16
"""Maximum GPU nodes per replica. Nobody has published a larger replica."""


AcceleratorName = Annotated[str, OneOf(accelerator_names())]
"""Name of an accelerator of the catalogue, such as `tpu-v6e` or `nvidia-l4`."""


class RungSettings(Settings):
    """One accelerator shape, or one machine type without one, with one provisioning model."""

    accelerator: AcceleratorName | None = None
    """Accelerator of the rung. By default, the nodes have processors alone, of `machine_type`."""
    provisioning: Provisioning
    """Provisioning model of the VMs. `calendar` consumes a reservation that a future reservation
    created."""
    topology: Topology | None = None
    """Topology of the TPU slice, such as 2x2. Required for TPUs, not allowed for GPUs."""
    count: int | None = Field(default=None, ge=1, le=16)
    """GPUs per node. Required for GPUs, unless `machine_type` or the family determines it; not
    allowed for TPUs."""
    hosts: int | None = Field(default=None, ge=1, le=MAX_HOSTS)
    """GPU nodes per replica, 1 by default. Not allowed for TPUs, whose topology determines it."""
    network: NodeNetwork | None = None
    """Network between the GPU nodes of a replica, or between prefill and decode: rdma uses the RDMA
    interfaces of A3 Ultra and A4 machines and is the default where models need it; tcpx uses the
    interfaces of A3 High machines with eight GPUs and tcpxo those of A3 Mega machines, and both
    require node pools with networks for them; tcp uses the interface of the node. One of the last
    three is required when a model needs RDMA that the machine does not have."""
    placement: NodePlacement | None = None
    """Placement of GPU nodes in their zone: compact places the nodes of the capacity close to each
    other and is the default with network rdma, unless the rung is reserved or the capacity has
    node pools; any is the default otherwise. A change replaces node pools of the stack, with all
    their nodes at once. Not allowed for TPUs, whose slices are placed as a whole."""
    machine_type: MachineType | None = None
    """Machine type, if the accelerator and count allow more than one. Required without an
    accelerator, such as c3-standard-8."""
    reservation: Name | None = None
    """Name of the reservation. Required for `reservation` and `calendar`, otherwise not allowed."""
    reservation_project: ProjectId | None = None
    """Project that owns the reservation. By default, the cluster's project."""
    reservation_zones: tuple[Zone, ...] | None = Field(default=None, min_length=1)
    """Zones of the reservation. The rung exists only in their regions."""
    reservation_period: ReservationPeriod | None = None
    """Period of a reservation in calendar mode. Before and after it, the class uses its other
    rungs. Costs count the rung for this period only. Only with `calendar`."""
    reservation_machines: int | None = Field(default=None, ge=1, le=1000)
    """VMs that the stack reserves for the period, in one zone. It is a purchase: Google neither
    changes nor cancels the request. By default, the reservation exists. Only with `calendar`."""
    zones: tuple[Zone, ...] | None = Field(default=None, min_length=1)
    """Zones to use, for rungs that are not reserved. The rung exists only in their regions. By
    default, every zone of a region."""
    allow_unlisted_zones: bool = False
    """Whether to allow zones that the accelerator catalog of this release does not list."""
    boot_disk_type: BootDisk | None = None
    """Boot disk type of the nodes. By default, GKE's default for the machine type."""
    max_run_hours: int | None = Field(default=None, ge=1, le=MAX_RUN_HOURS)
    """Maximum run time of a flex-start VM in hours. By default, the longest."""

    @property
    def is_tpu(self) -> bool:
        """Whether a pod requests it as `google.com/tpu`."""
        return self.kind == "tpu"

    @property
    def kind(self) -> str:
        """Kind of the hardware, one of `hardware.KINDS`."""
        return CPU if self.accelerator is None else hardware(self.accelerator).kind

    @property
    def named_zones(self) -> tuple[str, ...] | None:
        """Zones that the rung names, in either field."""
        return self.reservation_zones or self.zones

    def is_in(self, region: str) -> bool:
        """Return whether a region has the rung: it names no zones, or one in the region."""
        zones = self.named_zones
        return zones is None or any(region_of(zone) == region for zone in zones)


class RungArgs(RungSettings):
    """A rung as components take it, which knows the node pools that a program made for it."""

    node_pools: tuple[str, ...] | None = Field(default=None, min_length=1)
    """Names of manually created node pools for this rung, instead of pools that GKE creates."""
