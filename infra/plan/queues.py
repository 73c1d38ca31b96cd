"""What a queue becomes: its compute classes, and the namespaces of its teams."""

from collections.abc import Mapping
from dataclasses import dataclass

from infra.plan.capacity import RegionCapacity
from infra.plan.names import pool_name
from infra.plan.queue_places import queue_region, team_namespace
from infra.stack import Platform, Queue


@dataclass(frozen=True)
class QueueFlavorPlan:
    """Chips of a queue, as its region has them."""

    capacity: RegionCapacity
    chips: int
    queued: bool = False
    """Whether all nodes of a job come together, of a pool of their own."""

    @property
    def kind(self) -> str:
        """`tpu` or `gpu`."""
        return next(iter(self.capacity.classes))

    @property
    def compute_class(self) -> str:
        """Name of the compute class of its nodes, and of the flavor."""
        return self.capacity.classes[self.kind]

    @property
    def node_pool(self) -> str | None:
        """Name of the pool with queued provisioning; None where the class has its nodes."""
        return (
            pool_name(self.capacity.name, next(iter(self.capacity.rungs))) if self.queued else None
        )

    @property
    def nodes(self) -> int:
        """Nodes that have all the chips; all rungs of a capacity have nodes of one shape."""
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
        """Namespaces of the jobs of its teams, by the name of the team."""
        return {team: team_namespace(team) for team in self.settings.teams}


def queues_in(
    platform: Platform, region: str, capacity: Mapping[str, RegionCapacity]
) -> tuple[QueuePlan, ...]:
    """Return the queues of a region in the order of the stack.

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
                QueueFlavorPlan(capacity[each.capacity], each.chips, each.queued)
                for each in queue.flavors
            ),
        )
        for name, queue in platform.queues.items()
        if queue_region(platform, queue) == region
    )
