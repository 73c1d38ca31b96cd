"""Costs of clusters and their nodes, and of the logs and metrics of these."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from gke_inference.catalogue.platform_prices import UnitPrice, machine_price
from gke_inference.catalogue.prices import rung_price
from gke_inference.catalogue.quotas import boot_disk
from gke_inference.catalogue.rungs import Rung
from infra.estimate.cost_parts import (
    CLUSTER,
    OBSERVABILITY,
    Count,
    Part,
    always,
    listed,
    part,
    replicas,
)
from infra.estimate.usage import Usage
from infra.plan import Plan, RegionPlan
from planner.choice.cost import HOURS_PER_MONTH, Bill


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


def cluster_parts(plan: Plan, mean_share: float) -> Iterator[Part]:
    """Yield the management fee and system nodes of each cluster that the stack creates."""
    for region in plan.regions.values():
        if region.settings.existing.cluster is not None:
            continue
        yield listed(CLUSTER, "management fee", region.name, "cluster-fee", always(1))
        nodes = system_nodes(region, mean_share)
        if nodes is None:
            what = "what Autopilot takes for pods without accelerators, and beside accelerators"
            yield part(CLUSTER, what, region.name, None, always(1))
            continue
        machine = nodes.machine_type
        price = machine_price(machine, region.name)
        yield part(
            CLUSTER, f"system nodes {machine}", region.name, price, nodes.count, unit="nodes"
        )


def queue_parts(region: RegionPlan) -> Iterator[Part]:
    """Yield the nodes of a region's queues, at the price of each capacity's first rung.

    Job hours are not known in advance, so the expected cost is zero.
    """
    for queue in region.queues:
        for flavor in queue.flavors:
            rung = next(iter(flavor.capacity.rungs.values()))
            found = rung_price(rung, region.name)
            price = None
            if found is not None:
                price = UnitPrice(
                    found.usd_per_hour, "hour", found.source, found.date, found.confidence
                )
            what = f"queue {queue.name}, {rung.label}, while jobs run"
            yield part(CLUSTER, what, region.name, price, Count(0, 0, flavor.nodes), unit="nodes")


_MILLION: Final = 1e6


def observability_parts(
    region: str, bill: Bill, nodes: Iterable[Nodes], usage: Usage, scrape_seconds: int
) -> Iterator[Part]:
    """Yield the observability costs of a region.

    Args:
        region: Name of the region.
        bill: Bill of the stack, for its replicas.
        nodes: All nodes of the region.
        usage: Usage assumptions.
        scrape_seconds: Scrape interval.
    """
    every = sum((one.count for one in nodes), start=always(0))
    logs = every * usage.logs_gib_per_node
    yield listed(OBSERVABILITY, "Cloud Logging", region, "logging", logs, unit="GiB a month")
    here = (replicas(line) for line in bill.lines if line.served.region == region)
    readings = HOURS_PER_MONTH * 3600 / scrape_seconds
    millions = sum(here, start=always(0)) * (usage.series_per_replica * readings / _MILLION)
    what, item, unit = "Managed Prometheus", "prometheus-samples", "million samples a month"
    yield listed(OBSERVABILITY, what, region, item, millions, unit=unit)
