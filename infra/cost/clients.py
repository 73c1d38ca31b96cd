"""Costs of client teams: counters, cached answers, and reads of the key secret."""

from collections.abc import Iterator
from typing import Final

from infra.cost.parts import CLUSTER, Part, always, part
from infra.plan.clients import cached_in, gate_replicas, gated, has_counters, store_nodes
from infra.stack import Platform
from planner.choice.cost import HOURS_PER_MONTH

_SECONDS_BETWEEN_READS: Final = 2
"""Interval at which each replica reads the key secret (workloads/gateway/callout)."""
_PRICED_READS: Final = 10_000
"""Number of reads that one Secret Manager price covers
(cloud.google.com/secret-manager/pricing)."""


def client_parts(platform: Platform, region: str) -> Iterator[Part]:
    """Yield the costs of a region's client teams, if the stack has any."""
    clients = gated(platform)
    if clients is None:
        return
    if has_counters(platform):
        what = f"Memorystore for Valkey, {store_nodes(platform, clients).value}"
        nodes = always(1 + clients.store.replicas)
        yield part(CLUSTER, what, region, None, nodes, unit="nodes")
    cache = cached_in(platform, region)
    if cache is not None:
        what = f"Memorystore for Valkey, {cache.store.node_type.value}"
        nodes = always(1 + cache.store.replicas)
        yield part(CLUSTER, what, region, None, nodes, unit="nodes")
    reads = gate_replicas(platform, clients) * HOURS_PER_MONTH * 3600 / _SECONDS_BETWEEN_READS
    what, count = "Secret Manager, reads", always(reads / _PRICED_READS)
    yield part(CLUSTER, what, region, None, count, unit=f"times {_PRICED_READS:,} a month")
