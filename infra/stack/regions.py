"""Regions: where clusters stand, and the ranges of their networks."""

from enum import StrEnum

from pydantic import Field, PositiveInt

from infra.stack.base.fields import (
    BootDisk,
    Cidr,
    GkeVersion,
    KeyName,
    MachineType,
    Name,
    StackModel,
    Zone,
)
from infra.stack.existing import ExistingInRegion


class ClusterMode(StrEnum):
    """Who manages the nodes of a cluster."""

    STANDARD = "standard"
    AUTOPILOT = "autopilot"


class ClusterSpread(StrEnum):
    """Whether the control plane stands in one zone or in all of a region."""

    REGIONAL = "regional"
    ZONAL = "zonal"


class ReleaseChannel(StrEnum):
    """How early GKE versions arrive."""

    RAPID = "rapid"
    REGULAR = "regular"
    STABLE = "stable"
    EXTENDED = "extended"


class Ranges(StackModel):
    """Address ranges of one region; no two ranges of a stack may overlap."""

    nodes: Cidr
    """Addresses of the nodes."""
    pods: Cidr
    """Addresses of the pods."""
    services: Cidr
    """Addresses of the services."""
    proxies: Cidr
    """Addresses of the load balancer's proxies, /26 or larger."""
    published: Cidr | None = None
    """Addresses that connections of Private Service Connect come from, /29 or larger; needed where
    `gateway.front` is global or `gateway.publish` is set, and left out elsewhere."""


class Day(StrEnum):
    """A day of the week, as calendars of GKE spell it."""

    MONDAY = "MO"
    TUESDAY = "TU"
    WEDNESDAY = "WE"
    THURSDAY = "TH"
    FRIDAY = "FR"
    SATURDAY = "SA"
    SUNDAY = "SU"


class Maintenance(StackModel):
    """When GKE may upgrade a cluster; it needs 48 hours in any 32 days."""

    days: tuple[Day, ...] = Field(min_length=1)
    """Days on which a window begins."""
    start_hour: int = Field(ge=0, le=23)
    """Hour of the day at which it begins, UTC."""
    hours: int = Field(ge=4, le=24)
    """Length of a window in hours."""

    @property
    def hours_of_week(self) -> frozenset[int]:
        """Hours of the week, from Monday's first, in which GKE may upgrade."""
        days = list(Day)
        return frozenset(
            (days.index(day) * 24 + self.start_hour + hour) % (7 * 24)
            for day in self.days
            for hour in range(self.hours)
        )


_USUAL_DAYS = ((Day.SATURDAY, Day.SUNDAY), (Day.MONDAY, Day.TUESDAY), (Day.WEDNESDAY, Day.THURSDAY))
_USUAL_START, _USUAL_HOURS = 2, 8


def usual_maintenance(at: int) -> Maintenance:
    """Return the window of the region at a place of the stack that names none.

    One region's comes after another's, so that what an upgrade breaks is seen in one place first:
    three windows share the weekend's days, and further regions have other days.
    """
    days = _USUAL_DAYS[at // 3 % len(_USUAL_DAYS)]
    start = (_USUAL_START + _USUAL_HOURS * (at % 3)) % 24
    return Maintenance(days=days, start_hour=start, hours=_USUAL_HOURS)


class SystemPool(StackModel):
    """The nodes of everything that needs no accelerator."""

    machine_type: MachineType
    """Machine type of the nodes."""
    fallback: tuple[MachineType, ...] = Field(default=(), max_length=4)
    """Machine types of other families, a pool each: empty while the first type can be had."""
    min_nodes: int = Field(default=1, ge=1, le=100)
    """Nodes the pool never goes below, all zones together."""
    max_nodes: int = Field(default=3, ge=1, le=1000)
    """Nodes the pool may grow to, all zones together."""
    boot_disk_type: BootDisk = BootDisk.BALANCED
    """Type of the boot disks; C4 and N4 machines take hyperdisk-balanced only."""


class Region(StackModel):
    """One region: one cluster, its network and its buckets."""

    mode: ClusterMode
    """Who manages the nodes."""
    zones: tuple[Zone, ...] = Field(min_length=1)
    """Zones of the nodes."""
    ranges: Ranges | None = None
    """Address ranges of the region; left out where `existing.subnet` is named, else required."""
    cluster: ClusterSpread = ClusterSpread.REGIONAL
    """Spread of the control plane; a zonal one stands in the first zone."""
    release_channel: ReleaseChannel = ReleaseChannel.REGULAR
    """Channel of GKE versions; rapid has the newest ones, and is outside GKE's SLA."""
    version: GkeVersion | None = None
    """Oldest GKE of the cluster. By default the minor version that the channel gives to new
    clusters, or a newer one where the models need it; say it where the channel has got further.
    Required for an existing cluster: the GKE that it has at least."""
    hold_upgrades: bool | None = None
    """Whether GKE leaves nodes and the minor version alone until the version's end of support, so
    that no upgrade takes a scarce chip away; by default where `protection` is on."""
    existing: ExistingInRegion = ExistingInRegion()
    """What exists in the region and is named instead of made."""
    system_pool: SystemPool | None = None
    """Nodes without accelerators, in standard mode only."""
    authorized_networks: dict[Name, Cidr] = Field(default_factory=dict[str, str])
    """Ranges that may reach the control plane by address, by name; by DNS and IAM otherwise."""
    auto_provisioning_limits: dict[str, PositiveInt] | None = Field(default=None, min_length=1)
    """Turns node auto-provisioning on with these maxima: cpu (cores), memory (GiB), and chips by
    GKE's accelerator type. Compute classes make pools without it."""
    kms_key: KeyName | None = None
    """Cloud KMS key of the region for Kubernetes secrets; Google's own keys by default."""
    data_key: KeyName | None = None
    """Cloud KMS key of the region that encrypts what the stack keeps in it: buckets, the repository
    of images, disks of weights, Filestore and boot disks of nodes; Google's own keys by default. It
    is chosen when these are made, and Google's service agents must be allowed to use it."""
    maintenance: Maintenance | None = None
    """When GKE may upgrade; by default eight hours of the weekend, one region's after another's."""

    @property
    def published(self) -> str | None:
        """Range, or name of the subnet that exists, that published connections come from."""
        if self.existing.subnet is not None:
            return self.existing.subnet.published
        return None if self.ranges is None else self.ranges.published

    @property
    def proxies(self) -> str:
        """Range of the load balancer's proxies, of a region with one or the other kind of subnet.

        Raises:
            ValueError: It has neither, which the rules of a stack refuse.
        """
        if self.existing.subnet is not None:
            return self.existing.subnet.proxies
        if self.ranges is None:
            raise ValueError("must have 'ranges' or 'existing.subnet'")
        return self.ranges.proxies
