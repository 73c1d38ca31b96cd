"""Node counts of a region, which determine the cost of boot disks, NAT gateways and logs."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from gke_inference.catalogue.quotas import boot_disk
from gke_inference.catalogue.rungs import Rung
from infra.cost.parts import Count, replicas
from infra.plan import RegionPlan
from planner.choice.cost import Bill


@dataclass(frozen=True)
class Nodes:
    """Nodes of one type in a region."""

    machine_type: str
    disk_type: str
    """Boot disk type."""
    disk_gib: int
    count: Count


def system_nodes(region: RegionPlan, mean_share: float) -> Nodes | None:
    """Return the nodes without accelerators, or None if the stack creates none.

    Args:
        region: A region of the plan.
        mean_share: Mean over peak traffic, as in `planner.choice.cost.bill`.
    """
    nodes = region.system_nodes
    if nodes is None:
        return None
    least, most = nodes.minimum, nodes.maximum
    count = Count(least, max(least, math.ceil(most * mean_share)), most)
    return Nodes(nodes.machine_type, nodes.disk_type, nodes.disk_gib, count)


def accelerator_nodes(region: RegionPlan, bill: Bill) -> Iterator[Nodes]:
    """Yield the nodes of each bill line in a region, on the rung of its price."""
    for line in bill.lines:
        rung = line.rung
        if line.served.region != region.name or rung is None:
            continue
        kind, gib = _disk(rung)
        yield Nodes(rung.machine_type, kind, gib, replicas(line) * rung.hosts)


def _disk(rung: Rung) -> tuple[str, int]:
    kind, gib = boot_disk(rung.machine_type)
    return rung.boot_disk_type or kind, gib
