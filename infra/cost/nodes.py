"""How many nodes a region has: what boot disks, NAT gateways and logs are counted by."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from gke_inference.catalogue.quotas import boot_disk
from gke_inference.catalogue.rungs import Rung
from gke_inference.catalogue.system_pool import DISK_TYPE, MACHINE_TYPE, MOST_NODES
from infra.cost.parts import Count
from infra.plan import RegionPlan
from infra.stack import ClusterMode
from planner.choice.cost import Bill


@dataclass(frozen=True)
class Nodes:
    """Nodes of one make in a region."""

    machine_type: str
    disk_type: str
    """Of the boot disk."""
    disk_gib: int
    count: Count


def system_nodes(region: RegionPlan, mean_share: float) -> Nodes | None:
    """Return the nodes without accelerators; None in Autopilot, where GKE makes them.

    Args:
        region: Of the plan.
        mean_share: Mean over peak of the traffic, as of `planner.choice.cost.bill`.
    """
    settings = region.settings
    if settings.mode is ClusterMode.AUTOPILOT:
        return None
    pool = settings.system_pool
    machine = pool.machine_type if pool else MACHINE_TYPE
    least, most = (pool.min_nodes, pool.max_nodes) if pool else (1, MOST_NODES)
    count = Count(least, max(least, math.ceil(most * mean_share)), most)
    disk = pool.boot_disk_type.value if pool else DISK_TYPE
    return Nodes(machine, disk, boot_disk(machine)[1], count)


def accelerator_nodes(region: RegionPlan, bill: Bill) -> Iterator[Nodes]:
    """Yield the nodes of each line of a bill in a region, on the rung that the line is priced on.

    On the first rung where none has a price.
    """
    for line in bill.lines:
        if line.served.region != region.name or not line.served.rungs:
            continue
        first = line.first
        rung = next(
            (rung for rung in line.served.rungs if first and rung.label == first.rung),
            line.served.rungs[0],
        )
        replicas = Count(line.served.minimum, line.expected_replicas, line.served.maximum)
        kind, gib = _disk(rung)
        yield Nodes(rung.machine_type, kind, gib, replicas * rung.hosts)


def _disk(rung: Rung) -> tuple[str, int]:
    kind, gib = boot_disk(rung.machine_type)
    return rung.boot_disk_type or kind, gib
