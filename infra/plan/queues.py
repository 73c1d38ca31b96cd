"""Resolved queues: compute classes, and the namespaces of teams."""

from collections.abc import Mapping
from dataclasses import dataclass

from infra.plan.capacity import RegionCapacity, queue_region
from infra.plan.names import pool_name
from infra.stack import Platform, Queue


@dataclass(frozen=True)
class QueueFlavorPlan:
    """Chips of a queue in its region."""

    capacity: RegionCapacity
    chips: int
    queued: bool = False
    """Whether GKE provisions all nodes of a job together, in a separate node pool."""
    topology: bool = False
    """Whether Kueue places pods by the location of their nodes."""

    @property
    def kind(self) -> str:
        """`tpu` or `gpu`."""
        return next(iter(self.capacity.classes))

    @property
    def compute_class(self) -> str:
        """Name of the compute class of its nodes, and of the Kueue flavor."""
        return self.capacity.classes[self.kind]

    @property
    def node_pool(self) -> str | None:
        """Name of the node pool with queued provisioning, or None if a class provides the nodes."""
        return (
            pool_name(self.capacity.name, next(iter(self.capacity.rungs))) if self.queued else None
        )

    @property
    def nodes(self) -> int:
        """Number of nodes with all chips. All rungs of a capacity have the same node shape."""
        first = next(iter(self.capacity.rungs.values()))
        return self.chips // first.chips_per_node


@dataclass(frozen=True)
class QueuePlan:
    """One queue, resolved."""

    name: str
    settings: Queue
    region: str
    flavors: tuple[QueueFlavorPlan, ...]

    @property
    def namespaces(self) -> dict[str, str]:
        """Job namespaces of its teams, by team name."""
        return {team: team_namespace(team) for team in self.settings.teams}


def resolve_queues(
    platform: Platform, region: str, capacity: Mapping[str, RegionCapacity]
) -> tuple[QueuePlan, ...]:
    """Return the queues of a region, in stack order.

    Args:
        platform: The stack.
        region: The region.
        capacity: Every capacity as the region has it.
    """
    return tuple(
        QueuePlan(
            name=name,
            settings=queue,
            region=region,
            flavors=tuple(
                QueueFlavorPlan(capacity[each.capacity], each.chips, each.queued, each.topology)
                for each in queue.flavors
            ),
        )
        for name, queue in platform.queues.items()
        if queue_region(platform, queue) == region
    )


def team_namespace(team: str) -> str:
    """Return the namespace of a team's jobs, the same for all queues."""
    return f"jobs-{team}"
