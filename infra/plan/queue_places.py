"""Regions of queues, and the capacity that they use there."""

from infra.stack import Platform, Queue


def queue_region(platform: Platform, queue: Queue) -> str | None:
    """Return the region of a queue's jobs, or None if no region has rungs of every capacity."""
    if queue.region is not None:
        return queue.region
    wanted = [platform.capacity.get(flavor.capacity) for flavor in queue.flavors]
    for region in sorted(platform.regions):
        if all(each is None or each.rungs_in(region) for each in wanted):
            return region
    return None


def team_namespace(team: str) -> str:
    """Return the namespace of a team's jobs, the same for all queues."""
    return f"jobs-{team}"
