"""Regions: the location and network ranges of clusters."""

from enum import StrEnum

from pydantic import Field, PositiveInt

from gke_inference.cluster.settings import (
    ClusterMode,
    Maintenance,
    RegionRanges,
    ReleaseChannel,
    SystemNodes,
    SystemPoolSettings,
)
from gke_inference.settings import Settings
from gke_inference.settings.fields import (
    Cidr,
    GkeVersion,
    KeyName,
    MachineType,
    Name,
    Zone,
)
from infra.stack.existing import ExistingInRegion


class ClusterSpread(StrEnum):
    """Whether the control plane is in one zone or in all zones of a region."""

    REGIONAL = "regional"
    ZONAL = "zonal"


class Ranges(RegionRanges):
    """IP address ranges of one region. No two ranges of a stack may overlap."""

    published: Cidr | None = None
    """Range of the Private Service Connect NAT subnet, /29 or larger. Required where
    `gateway.front` is `global` or `gateway.publish` is set; otherwise, omit it."""
    accelerators: Cidr | None = None
    """Range of the interfaces of accelerators, /26 or larger, which is divided among their
    networks: four with `network: tcpx`, eight with `network: tcpxo`. Required with either;
    otherwise, omit it."""


class SystemPool(SystemPoolSettings):
    """The node pool for all workloads that need no accelerator."""

    machine_type: MachineType
    """Machine type of the nodes."""
    max_nodes: SystemNodes = 3
    """Maximum number of nodes, across all zones."""


class ChipLimits(Settings):
    """ResourceQuotas that limit the accelerators of stray pods in a region."""

    enabled: bool = True
    """Whether they exist: one in the namespace of the models, and one in `default`, which allows
    no accelerators."""
    gpu: int | None = Field(default=None, ge=0, le=100_000)
    """Maximum GPUs that pods in the namespace of the models may request in total. By default, twice
    all replicas (at least 16), each on the largest rung of the region's capacities."""
    tpu: int | None = Field(default=None, ge=0, le=100_000)
    """Maximum TPU chips in the namespace of the models, with the same default."""


class Region(Settings):
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
