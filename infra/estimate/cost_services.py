"""Costs of the services around models. Most run on the system nodes, which are counted there."""

from collections.abc import Iterator
from typing import Final

from gke_inference.catalogue.cloud_run import instance_price
from infra.estimate.cost_parts import CLUSTER, Count, Part, always, part
from infra.plan import RegionPlan
from infra.plan.backends import BackendsPlan
from infra.plan.guardrails import GuardrailsPlan
from planner.choice.cost import HOURS_PER_MONTH

_SECONDS_BETWEEN_READS: Final = 2
"""Interval at which each replica reads the key secret (workloads/gateway/callout)."""
_PRICED_READS: Final = 10_000
"""Number of reads that one Secret Manager price covers
(cloud.google.com/secret-manager/pricing)."""


def client_parts(region: RegionPlan) -> Iterator[Part]:
    """Yield the costs of the gate of a region, if it has one."""
    gate = region.gate
    if gate is None:
        return
    clients = gate.clients
    if clients.has_counters:
        what = f"Memorystore for Valkey, {clients.store_nodes.value}"
        nodes = always(1 + clients.settings.store.replicas)
        yield part(CLUSTER, what, region.name, None, nodes, unit="nodes")
    if gate.cache is not None:
        what = f"Memorystore for Valkey, {gate.cache.store.node_type.value}"
        nodes = always(1 + gate.cache.store.replicas)
        yield part(CLUSTER, what, region.name, None, nodes, unit="nodes")
    reads = clients.replicas * HOURS_PER_MONTH * 3600 / _SECONDS_BETWEEN_READS
    what, count = "Secret Manager, reads", always(reads / _PRICED_READS)
    yield part(CLUSTER, what, region.name, None, count, unit=f"times {_PRICED_READS:,} a month")


def guardrail_parts(guardrails: GuardrailsPlan, region: RegionPlan) -> Iterator[Part]:
    """Yield the costs of a region's guardrails.

    Guards in the cluster run on its system nodes, which are already counted.
    """
    if guardrails.armor and region.serves_models:
        unit = "region, by tokens of prompts and answers"
        yield part(CLUSTER, "Model Armor", region.name, None, always(1), unit=unit)


def backend_parts(backends: BackendsPlan | None) -> Iterator[Part]:
    """Yield backend tokens as a part without a price, which no total includes."""
    if backends is not None and (count := len(backends.charged_by_tokens)):
        what = "Tokens of backends, charged by their providers"
        yield part(CLUSTER, what, "", None, always(count), unit="backends")


def run_parts(
    backends: BackendsPlan | None, region: RegionPlan, mean_share: float
) -> Iterator[Part]:
    """Yield the instances of a region's models on Cloud Run, which are charged while they exist.

    Args:
        backends: Backends of the stack.
        region: The region.
        mean_share: Mean over peak traffic, as in `planner.choice.cost.bill`.
    """
    for service in () if backends is None else backends.services_in(region.name):
        model = service.settings
        vcpus, gib = model.instance_vcpus, model.instance_gib
        price = instance_price(
            model.accelerator, region.name, vcpus, gib, is_zonal=model.zonal_redundancy
        )
        least, most = model.min_instances, model.max_instances
        count = Count(least, max(least, most * mean_share), most)
        what = f"Cloud Run {service.title}: {model.accelerator}, {vcpus} vCPUs, {gib} GiB"
        yield part(CLUSTER, what, region.name, price, count, unit="instances")


_BATCH_STORAGE: Final = "Cloud Storage of batches, by what is kept and by operation"


def batch_parts(region: RegionPlan) -> Iterator[Part]:
    """Yield the costs of a region's batches, whose storage is not known in advance."""
    if region.batches is not None:
        yield part(CLUSTER, _BATCH_STORAGE, region.name, None, always(1), unit="buckets")


_STREAM_THROUGHPUT: Final = "Pub/Sub, throughput beyond 10 GiB a month"


def stream_parts(region: RegionPlan) -> Iterator[Part]:
    """Yield the costs of a region's streams, whose throughput is not known in advance."""
    if found := sum(1 for stream in region.streams if not stream.is_kafka):
        yield part(CLUSTER, _STREAM_THROUGHPUT, region.name, None, always(found), unit="streams")


_PERSONAL: Final = {
    "buckets": "Cloud Storage of personalized images, by what is kept and by operation",
    "services": "Cloud Run for personalized images, by request",
}


def personal_parts(region: RegionPlan) -> Iterator[Part]:
    """Yield the costs of a region's personalized images, whose use is not known in advance."""
    if region.personal is not None:
        for unit, what in _PERSONAL.items():
            yield part(CLUSTER, what, region.name, None, always(1), unit=unit)
