"""Costs of logs and metrics."""

from collections.abc import Iterable, Iterator
from typing import Final

from infra.cost.nodes import Nodes
from infra.cost.parts import OBSERVABILITY, Part, always, listed, replicas
from infra.cost.usage import Usage
from planner.choice.cost import HOURS_PER_MONTH, Bill

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
