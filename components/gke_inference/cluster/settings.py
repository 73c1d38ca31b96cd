"""Settings of clusters and networks, which stacks and components share."""

from typing import Annotated, Final

from pydantic import Field

from gke_inference.catalogue.system_pool import MACHINE_TYPE, MOST_NODES
from gke_inference.settings import Settings, Word
from gke_inference.settings.fields import BootDisk, Cidr, MachineType
from gke_inference.settings.week import Day

Mtu = Annotated[int, Field(ge=1300, le=8896)]
"""MTU of a network, in bytes."""
SystemNodes = Annotated[int, Field(ge=1, le=1000)]
"""Maximum number of nodes of a system pool, across all zones."""


class ClusterMode(Word):
    """Who manages the nodes of a cluster."""

    STANDARD = "standard"
    AUTOPILOT = "autopilot"


class ReleaseChannel(Word):
    """Release channel for GKE versions."""

    RAPID = "rapid"
    REGULAR = "regular"
    STABLE = "stable"
    EXTENDED = "extended"


class RegionRanges(Settings):
    """IP address ranges of one region. No two ranges of a network may overlap."""

    nodes: Cidr
    """Range of the nodes and of internal addresses, /29 or larger."""
    pods: Cidr
    """Range of the pods, /24 or larger. Each node takes a /24 unless it allows fewer pods."""
    services: Cidr
    """Range of the cluster-internal Services, /27 or larger."""
    proxies: Cidr
    """Range of the load balancer's proxy-only subnet, /26 or larger. Google recommends /23."""
    published: Cidr | None = None
    """Range of the Private Service Connect NAT subnet, /29 or larger. By default, there is no such
    subnet."""


class Maintenance(Settings):
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


_USUAL_DAYS: Final = (
    (Day.SATURDAY, Day.SUNDAY),
    (Day.MONDAY, Day.TUESDAY),
    (Day.WEDNESDAY, Day.THURSDAY),
)
_USUAL_START, _USUAL_HOURS = 2, 8


def usual_maintenance(at: int = 0) -> Maintenance:
    """Return the default window of a region, by its position in the stack.

    Windows follow one another, so that a bad upgrade shows up in one region first: the first three
    regions share the weekend, and further regions get other days.
    """
    days = _USUAL_DAYS[at // 3 % len(_USUAL_DAYS)]
    start = (_USUAL_START + _USUAL_HOURS * (at % 3)) % 24
    return Maintenance(days=days, start_hour=start, hours=_USUAL_HOURS)


class SystemPoolSettings(Settings):
    """The node pool for all workloads that need no accelerator."""

    machine_type: MachineType = MACHINE_TYPE
    """Machine type of the nodes."""
    fallback: tuple[MachineType, ...] = Field(default=(), max_length=4)
    """Machine types of other families, each with its own node pool, which stays empty while the
    first type is available."""
    min_nodes: int = Field(default=1, ge=1, le=100)
    """Minimum number of nodes, across all zones."""
    max_nodes: SystemNodes = MOST_NODES
    """Maximum number of nodes, across all zones."""
    boot_disk_type: BootDisk | None = None
    """Boot disk type. By default, hyperdisk-balanced for machines that boot only from it, such as
    C4 and N4, and pd-balanced for others."""
