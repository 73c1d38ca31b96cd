"""Queues: chips that the jobs of several teams share."""

from pydantic import Field

from gke_inference.queues.settings import FlavorChips, TeamChips
from gke_inference.settings import Settings
from gke_inference.settings.fields import (
    Name,
    RegionName,
)


class QueueFlavor(Settings):
    """Chips of a queue."""

    capacity: Name
    """Capacity that provides the chips. No model or other queue may use it."""
    chips: FlavorChips
    """Maximum number of chips for the jobs of all teams combined."""
    queued: bool = False
    """Whether GKE provisions all nodes of a job together or none (queued provisioning), as jobs
    with several pods need. The capacity must have `node_pools` and one flex-start GPU rung. All
    flavors of a queue must have the same value."""
    topology: bool = False
    """Whether jobs can ask Kueue for nodes in one block or sub-block (topology-aware scheduling).
    Requires `queued` and machines with eight GPUs whose location Google publishes: A3 and A4."""


class QueueTeam(Settings):
    """Quota of a team in a queue. Its jobs run in the namespace `jobs-TEAM`."""

    chips: dict[Name, int] = Field(default_factory=dict[str, int])
    """Nominal quota of chips, by capacity. An omitted capacity is 0."""
    borrow: TeamChips | None = None
    """Chips of each capacity that it may borrow beyond its quota while other teams do not use them.
    By default, all of them."""
    shared_folder: bool = False
    """Whether its jobs have the claim `shared-folder`, the folder of `storage.filestore` or
    `storage.lustre`. Models with live adapters there serve the adapters that jobs write. The jobs
    can write to the whole folder: only one team of a region can have it."""
    lend: TeamChips | None = None
    """Unused chips of each capacity that it lends to other teams, at most its quota. By default,
    all."""


class Queue(Settings):
    """Chips that the jobs of several teams share."""

    flavors: tuple[QueueFlavor, ...] = Field(min_length=1, max_length=10)
    """Chips in order of preference: a job gets those of the first capacity with room for it."""
    teams: dict[Name, QueueTeam] = Field(min_length=1)
    """Teams by name."""
    preempt: bool = True
    """Whether a team can reclaim chips that others borrowed from it, and whether a job of priority
    `high` can preempt another job of its own team. Preempted jobs wait in the queue again."""
    region: RegionName | None = None
    """Region of the jobs. By default, the first region by name that has rungs of every
    capacity."""
