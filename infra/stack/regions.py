"""Regions: where clusters stand, and the ranges of their networks."""

from enum import StrEnum

from pydantic import Field, PositiveInt

from infra.stack.fields import Cidr, KeyName, MachineType, Name, StackModel, Zone


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


class SystemPool(StackModel):
    """The nodes of everything that needs no accelerator."""

    machine_type: MachineType
    """Machine type of the nodes."""
    min_nodes: int = Field(default=1, ge=1, le=100)
    """Nodes the pool never goes below, all zones together."""
    max_nodes: int = Field(default=3, ge=1, le=1000)
    """Nodes the pool may grow to, all zones together."""


class Region(StackModel):
    """One region: one cluster, its network and its buckets."""

    mode: ClusterMode
    """Who manages the nodes."""
    zones: tuple[Zone, ...] = Field(min_length=1)
    """Zones of the nodes."""
    ranges: Ranges
    """Address ranges of the region."""
    cluster: ClusterSpread = ClusterSpread.REGIONAL
    """Spread of the control plane; a zonal one stands in the first zone."""
    release_channel: ReleaseChannel = ReleaseChannel.RAPID
    """Channel of GKE versions; the inference gateway's newest features come by rapid first."""
    system_pool: SystemPool | None = None
    """Nodes without accelerators, in standard mode only."""
    authorized_networks: dict[Name, Cidr] = Field(default_factory=dict[str, str])
    """Ranges that may reach the control plane by address, by name; by DNS and IAM otherwise."""
    auto_provisioning_limits: dict[str, PositiveInt] | None = Field(default=None, min_length=1)
    """Turns node auto-provisioning on with these maxima: cpu (cores), memory (GiB), and chips by
    GKE's accelerator type. Compute classes make pools without it."""
    kms_key: KeyName | None = None
    """Cloud KMS key that encrypts Kubernetes secrets; Google's own keys by default."""
    maintenance: Maintenance | None = None
    """When GKE may upgrade; the weekend's nights by default."""
