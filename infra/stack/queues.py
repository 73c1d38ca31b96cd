"""Queues: chips that the jobs of several teams share."""

from pydantic import Field

from infra.stack.base.fields import Name, RegionName, StackModel


class QueueFlavor(StackModel):
    """Chips of a queue."""

    capacity: Name
    """Capacity that provides the chips, which no model and no other queue uses."""
    chips: int = Field(ge=1, le=100_000)
    """Chips that the jobs of all teams may have together."""
    queued: bool = False
    """Whether all nodes of a job come together or none does, by GKE's queued provisioning, as a job
    of several pods needs. The capacity has `node_pools` and one flex-start rung of GPUs. All
    flavors of a queue have the same value."""


class QueueTeam(StackModel):
    """What a team may have of a queue; its jobs are in the namespace `jobs-TEAM`."""

    chips: dict[Name, int] = Field(default_factory=dict[str, int])
    """Its own chips by capacity; 0 of one that is left out."""
    borrow: int | None = Field(default=None, ge=0, le=100_000)
    """Chips of each capacity that it may have beyond its own while nobody else wants them; by
    default all there are."""
    lend: int | None = Field(default=None, ge=0, le=100_000)
    """Chips of each capacity that others may have while it does not want them, at most its own; by
    default all."""


class Queue(StackModel):
    """Chips that the jobs of several teams share."""

    flavors: tuple[QueueFlavor, ...] = Field(min_length=1, max_length=10)
    """Chips, the preferred first: a job has those of the first capacity with room for it."""
    teams: dict[Name, QueueTeam] = Field(min_length=1)
    """Teams by name."""
    preempt: bool = True
    """Whether a team takes back what others borrowed from it, and a job of priority `high` the
    chips of another of its own team. The jobs that lose their chips wait again."""
    region: RegionName | None = None
    """Region of the jobs; by default the first that has rungs of every capacity."""
