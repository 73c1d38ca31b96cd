"""Regions: the location and network ranges of clusters."""

from enum import StrEnum

from pydantic import Field, PositiveInt

from infra.stack.existing import ExistingInRegion
from infra.stack.fields import (
    BootDisk,
    Cidr,
    GkeVersion,
    KeyName,
    MachineType,
    Name,
    StackModel,
    Zone,
)


class ClusterMode(StrEnum):
    """Who manages the nodes of a cluster."""

    STANDARD = "standard"
    AUTOPILOT = "autopilot"


class ClusterSpread(StrEnum):
    """Whether the control plane is in one zone or in all zones of a region."""

    REGIONAL = "regional"
    ZONAL = "zonal"


class ReleaseChannel(StrEnum):
    """Release channel for GKE versions."""

    RAPID = "rapid"
    REGULAR = "regular"
    STABLE = "stable"
    EXTENDED = "extended"


class Ranges(StackModel):
    """IP address ranges of one region. No two ranges of a stack may overlap."""

    nodes: Cidr
    """Range of the nodes."""
    pods: Cidr
    """Range of the pods."""
    services: Cidr
    """Range of the services."""
    proxies: Cidr
    """Range of the load balancer's proxy-only subnet, /26 or larger."""
    published: Cidr | None = None
    """Range of the Private Service Connect NAT subnet, /29 or larger. Required where
    `gateway.front` is `global` or `gateway.publish` is set; otherwise, omit it."""
    accelerators: Cidr | None = None
    """Range of the interfaces of accelerators, /26 or larger, which is divided among their
    networks: four with `network: tcpx`, eight with `network: tcpxo`. Required with either;
    otherwise, omit it."""


class Day(StrEnum):
    """A day of the week, in the spelling of GKE's recurrence rules."""

    MONDAY = "MO"
    TUESDAY = "TU"
    WEDNESDAY = "WE"
    THURSDAY = "TH"
    FRIDAY = "FR"
    SATURDAY = "SA"
    SUNDAY = "SU"


class Maintenance(StackModel):
    """When GKE may upgrade a cluster. GKE needs at least 48 hours in every 32 days."""

    days: tuple[Day, ...] = Field(min_length=1)
    """Days on which a window starts."""
    start_hour: int = Field(ge=0, le=23)
    """Hour of the day at which a window starts, in UTC."""
    hours: int = Field(ge=4, le=24)
    """Length of a window, in hours."""

    @property
    def hours_of_week(self) -> frozenset[int]:
        """Hours of the week, counted from Monday 00:00 UTC, in which GKE may upgrade."""
        days = list(Day)
        return frozenset(
            (days.index(day) * 24 + self.start_hour + hour) % (7 * 24)
            for day in self.days
            for hour in range(self.hours)
        )


_USUAL_DAYS = ((Day.SATURDAY, Day.SUNDAY), (Day.MONDAY, Day.TUESDAY), (Day.WEDNESDAY, Day.THURSDAY))
_USUAL_START, _USUAL_HOURS = 2, 8


def usual_maintenance(at: int) -> Maintenance:
    """Return the default window of a region, by its position in the stack.

    Windows follow one another, so that a bad upgrade shows up in one region first: the first three
    regions share the weekend, and further regions get other days.
    """
    days = _USUAL_DAYS[at // 3 % len(_USUAL_DAYS)]
    start = (_USUAL_START + _USUAL_HOURS * (at % 3)) % 24
    return Maintenance(days=days, start_hour=start, hours=_USUAL_HOURS)


class SystemPool(StackModel):
    """The node pool for all workloads that need no accelerator."""

    machine_type: MachineType
    """Machine type of the nodes."""
    fallback: tuple[MachineType, ...] = Field(default=(), max_length=4)
    """Machine types of other families, each with its own node pool, which stays empty while the
    first type is available."""
    min_nodes: int = Field(default=1, ge=1, le=100)
    """Minimum number of nodes, across all zones."""
    max_nodes: int = Field(default=3, ge=1, le=1000)
    """Maximum number of nodes, across all zones."""
    boot_disk_type: BootDisk | None = None
    """Boot disk type. By default, hyperdisk-balanced for machines that boot only from it, such as
    C4 and N4, and pd-balanced for others."""


class ChipLimits(StackModel):
    """ResourceQuotas that limit the accelerators of stray pods in a region."""

    enabled: bool = True
    """Whether they exist: one in the namespace of the models, and one in `default`, which allows
    no accelerators."""
    gpu: int | None = Field(default=None, ge=0, le=100_000)
    """Maximum GPUs that pods in the namespace of the models may request in total. By default, twice
    all replicas (at least 16), each on the largest rung of the region's capacities."""
    tpu: int | None = Field(default=None, ge=0, le=100_000)
    """Maximum TPU chips in the namespace of the models, with the same default."""


class Region(StackModel):
    """One region, with its cluster, network and buckets."""

    mode: ClusterMode
    """Who manages the nodes."""
    zones: tuple[Zone, ...] = Field(min_length=1)
    """Zones of the nodes."""
    ranges: Ranges | None = None
    """IP address ranges of the region. Required unless `existing.subnet` is set."""
    cluster: ClusterSpread = ClusterSpread.REGIONAL
    """Location type of the cluster. A zonal cluster is in the first zone."""
    release_channel: ReleaseChannel = ReleaseChannel.REGULAR
    """Release channel for GKE versions. `rapid` has the newest versions and is not covered by GKE's
    SLA."""
    version: GkeVersion | None = None
    """Minimum GKE version of the cluster. By default, the channel's default minor version for new
    clusters, or a newer one if the models need it. Set it if the channel has since moved on. For an
    existing cluster it is required: the minimum GKE version that it runs."""
    hold_upgrades: bool | None = None
    """Whether GKE defers node and minor version upgrades until the version's end of support, so
    that no upgrade gives up scarce chips. On by default where `protection` is on."""
    existing: ExistingInRegion = ExistingInRegion()
    """Existing resources to use in the region."""
    system_pool: SystemPool | None = None
    """Nodes without accelerators, in standard mode only."""
    authorized_networks: dict[Name, Cidr] = Field(default_factory=dict[str, str])
    """CIDR ranges that may reach the control plane by IP address, by name. Otherwise, access is
    through the DNS endpoint and IAM."""
    auto_provisioning_limits: dict[str, PositiveInt] | None = Field(default=None, min_length=1)
    """Turns on node auto-provisioning with these limits: `cpu` (cores), `memory` (GiB), and chips
    by GKE's accelerator type. Compute classes create node pools without it."""
    chip_limits: ChipLimits = ChipLimits()
    """Limits for accelerators that pods may request, apart from queues and teams."""
    kms_key: KeyName | None = None
    """Cloud KMS key in the region for Kubernetes Secrets. Google-managed keys by default."""
    data_key: KeyName | None = None
    """Cloud KMS key in the region that encrypts the data of the stack: buckets, the image
    repository, weight disks, Filestore and node boot disks. Google-managed keys by default. You can
    set it only at creation, and Google's service agents must be allowed to use it."""
    folder_zone: str | None = None
    """Zone of the region's Filestore or Lustre instance; by default the first of `zones`. An
    instance in another zone is a new one, without the files of the old one: set it before you
    change the order of `zones`."""
    maintenance: Maintenance | None = None
    """When GKE may upgrade. By default, an eight-hour weekend window, staggered by region."""

    @property
    def published(self) -> str | None:
        """Range or existing subnet of Private Service Connect."""
        if self.existing.subnet is not None:
            return self.existing.subnet.published
        return None if self.ranges is None else self.ranges.published

    @property
    def proxies(self) -> str:
        """Range of the load balancer's proxy-only subnet, created or existing.

        Raises:
            ValueError: It has neither, which the rules of a stack refuse.
        """
        if self.existing.subnet is not None:
            return self.existing.subnet.proxies
        if self.ranges is None:
            raise ValueError("must have 'ranges' or 'existing.subnet'")
        return self.ranges.proxies
