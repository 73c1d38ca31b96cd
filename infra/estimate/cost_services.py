"""Costs of the services around models. Most run on the system nodes, which are counted there."""

from collections.abc import Iterator
from typing import Final

from infra.estimate.cost_parts import CLUSTER, Part, always, part
from infra.plan.backends import has_backends
from infra.plan.batches import batches_in
from infra.plan.clients import cached_in, gate_replicas, gated, has_counters, store_nodes
from infra.plan.guardrails import has_armor
from infra.plan.queue_places import queue_region
from infra.plan.streams import streams
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


def guardrail_parts(platform: Platform, region: str) -> Iterator[Part]:
    """Yield the costs of a region's guardrails.

    Guards in the cluster run on its system nodes, which are already counted.
    """
    if has_armor(platform):
        unit = "region, by tokens of prompts and answers"
        yield part(CLUSTER, "Model Armor", region, None, always(1), unit=unit)


def backend_parts(platform: Platform) -> Iterator[Part]:
    """Yield backend tokens as a part without a price, which no total includes."""
    if has_backends(platform):
        what, count = "Tokens of backends, charged by their providers", len(platform.backends)
        yield part(CLUSTER, what, "", None, always(count), unit="backends")


_BATCH_STORAGE: Final = "Cloud Storage of batches, by what is kept and by operation"


def batch_parts(platform: Platform, region: str) -> Iterator[Part]:
    """Yield the costs of a region's batches, whose storage is not known in advance."""
    if batches_in(platform, region) is not None:
        yield part(CLUSTER, _BATCH_STORAGE, region, None, always(1), unit="buckets")


_STREAM_THROUGHPUT: Final = "Pub/Sub, throughput beyond 10 GiB a month"


def stream_parts(platform: Platform, region: str) -> Iterator[Part]:
    """Yield the costs of a region's streams, whose throughput is not known in advance."""
    found = [each for each in streams(platform) if each.region == region and not each.is_kafka]
    if found:
        yield part(CLUSTER, _STREAM_THROUGHPUT, region, None, always(len(found)), unit="streams")


_PERSONAL: Final = {
    "buckets": "Cloud Storage of personalized images, by what is kept and by operation",
    "services": "Cloud Run for personalized images, by request",
}


def personal_parts(platform: Platform, region: str) -> Iterator[Part]:
    """Yield the costs of a region, whose use is not known in advance."""
    personal = platform.personal_images
    if personal is None or queue_region(platform, platform.queues[personal.queue]) != region:
        return
    for unit, what in _PERSONAL.items():
        yield part(CLUSTER, what, region, None, always(1), unit=unit)
