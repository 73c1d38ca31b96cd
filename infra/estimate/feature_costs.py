"""Costs of a stack's features beside accelerators and storage: networks, gates, guards, workers.

Most of them run on the system nodes, which `infra.estimate.stack_cost` counts.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from gke_inference.catalogue.platform_prices import (
    UnitPrice,
    dataflow_worker_price,
    run_host_price,
    run_instance_price,
    unit_price,
)
from gke_inference.catalogue.prices import rung_price
from gke_inference.catalogue.rungs import Rung
from gke_inference.clients.settings import StoreNodes
from gke_inference.front.settings import ROUTER_GIB, ROUTER_VCPUS
from gke_inference.pipelines.settings import DISK_GIB
from infra.estimate.cost_parts import (
    CLUSTER,
    NETWORK,
    Nodes,
    Part,
    hourly,
    listed,
    part,
    unmeasured,
)
from infra.estimate.usage import Usage
from infra.plan import RegionPlan
from infra.plan.backends import BackendsPlan
from infra.plan.front import FrontPlan, RouterPlan
from infra.plan.guardrails import GuardrailsPlan
from infra.plan.optimization import trained_models
from infra.stack import Gateway
from planner.amount import HOURS_PER_MONTH, Amount, Count, always

_MOST_BY_MACHINE: Final = 32
"""Number of VMs up to which a NAT gateway is billed per VM (cloud.google.com/nat/pricing)."""
_GIB: Final = "GiB a month"
_EGRESS: Final = (
    ("internet-egress", 1024.0),
    ("internet-egress-1-tib", 10_240.0),
    ("internet-egress-10-tib", float("inf")),
)
"""Price of each tier of traffic to the internet, and the GiB a month at which it ends
(cloud.google.com/vpc/network-pricing)."""
_SECONDS_BETWEEN_READS: Final = 2
"""Interval at which each replica reads the key secret (workloads/gateway/callout)."""
_PRICED_READS: Final = 10_000
"""Number of reads that one Secret Manager price covers
(cloud.google.com/secret-manager/pricing)."""


def network_parts(
    front: FrontPlan, region: str, nodes: Iterable[Nodes], usage: Usage, *, has_nat: bool
) -> Iterator[Part]:
    """Yield the network costs of a region. An existing network has its own NAT.

    Args:
        front: Endpoints of the stack; a region without models has no gateway.
        region: The region.
        nodes: All nodes of the region.
        usage: Usage assumptions.
        has_nat: Whether the stack creates the network.
    """
    if region in front.regions:
        yield from _gateway_parts(front.gateway, region, usage)
    if has_nat:
        yield _nat_gateway(region, nodes)
        yield listed(NETWORK, "NAT address", region, "nat-address", always(1))


def _gateway_parts(gateway: Gateway, region: str, usage: Usage) -> Iterator[Part]:
    """Yield the costs of the load balancer that a region's gateway becomes."""
    traffic = always(usage.traffic_gib)
    if not gateway.has_internal_gateways:
        balancer = "external load balancer"
        yield listed(NETWORK, f"{balancer}, forwarding rule", region, "forwarding-rules", always(1))
        item = "external-load-balancer-data"
        yield listed(NETWORK, f"{balancer}, data both ways", region, item, traffic * 2, unit=_GIB)
        yield part(NETWORK, "Cloud Armor policy", region, None, always(1))
        yield _egress("traffic to the internet", region, usage.traffic_gib, replaces_standard=True)
    else:
        balancer = "internal load balancer"
        yield part(NETWORK, f"{balancer}, proxy instances", region, None, always(1))
        yield part(NETWORK, f"{balancer}, data both ways", region, None, traffic * 2, unit=_GIB)
    if gateway.is_published:
        yield part(NETWORK, "Private Service Connect, data", region, None, traffic * 2, unit=_GIB)


def _router_parts(front: FrontPlan, router: RouterPlan) -> Iterator[Part]:
    """Yield the instances of the front's router, and its endpoints for the gateways."""
    least, most = router.settings.min_instances, router.settings.max_instances
    what = f"front router on Cloud Run: {ROUTER_VCPUS} vCPU, {ROUTER_GIB} GiB"
    for region in front.regions:
        price = run_host_price(region, ROUTER_VCPUS, ROUTER_GIB)
        count = Count(least, max(1, least), most)
        yield part(NETWORK, what, region, price, count, unit="instances")
        endpoint = "Private Service Connect endpoint of the front router"
        yield part(NETWORK, endpoint, region, None, always(1))


def front_parts(front: FrontPlan, usage: Usage) -> Iterator[Part]:
    """Yield the costs of the front. Data is billed in the region whose gateway serves it.

    Args:
        front: Endpoints of the stack.
        usage: Usage assumptions per region.
    """
    if not front.regions:
        return
    if front.gateway.has_fleet_gateway:
        yield part(NETWORK, "multi-cluster gateway", "", None, always(1))
    if not front.has_load_balancer:
        return
    if front.router is not None:
        yield from _router_parts(front, front.router)
    balancer = "global load balancer"
    item = "global-forwarding-rules"
    yield listed(NETWORK, f"{balancer}, forwarding rules", "", item, always(1))
    yield part(NETWORK, "Cloud Armor policy of the front", "", None, always(1))
    traffic, item = always(usage.traffic_gib * 2), "external-load-balancer-data"
    for region in front.routed:
        yield listed(NETWORK, f"{balancer}, data both ways", region, item, traffic, unit=_GIB)
        yield _egress("traffic of the front to the internet", region, usage.traffic_gib)


def _egress(what: str, region: str, gib: float, *, replaces_standard: bool = False) -> Part:
    """Return the cost of traffic to the internet, whose price falls with the amount of a month.

    All prices here are those of the Premium Tier.

    Args:
        what: Description of the item.
        region: Region that the traffic leaves.
        gib: Traffic in GiB a month.
        replaces_standard: Whether the traffic uses the Standard Tier, which costs less; the
            description then names the tier of the price.
    """
    prices = [(unit_price(item, region), end) for item, end in _EGRESS]
    begun, sum_a_month = 0.0, 0.0
    for price, end in prices:
        if price is None:
            return part(NETWORK, what, region, None, always(gib), unit=_GIB)
        sum_a_month += max(min(gib, end) - begun, 0.0) * price.usd
        begun = end
    first = prices[0][0]
    what = f"{what}, at Premium Tier prices" if replaces_standard else what
    cost = Amount(sum_a_month / HOURS_PER_MONTH)
    source = None if first is None else (first.source, first.date)
    return Part(NETWORK, what, region, f"{always(gib)} {_GIB}", cost, cost, cost, source)


def _nat_gateway(region: str, nodes: Iterable[Nodes]) -> Part:
    what = "NAT gateway"
    count = sum((one.count for one in nodes), start=always(0))

    def hour(machines: float) -> Amount:
        if machines > _MOST_BY_MACHINE:
            return hourly("nat-gateway", region, what)
        return hourly("nat-machine", region, what) * machines

    price = unit_price("nat-gateway", region)
    return Part(
        NETWORK,
        what,
        region,
        f"{count} nodes",
        hour(count.minimum),
        hour(count.expected),
        hour(count.maximum),
        None if price is None else (price.source, price.date),
    )


def client_parts(region: RegionPlan) -> Iterator[Part]:
    """Yield the costs of the gate of a region, if it has one."""
    gate = region.gate
    if gate is None:
        return
    clients = gate.clients
    if clients.has_counters:
        yield _valkey(region.name, clients.store_nodes, clients.settings.store.replicas)
    if gate.cache is not None:
        yield _valkey(region.name, gate.cache.store.node_type, gate.cache.store.replicas)
    reads = clients.replicas * HOURS_PER_MONTH * 3600 / _SECONDS_BETWEEN_READS
    what, count = "Secret Manager, reads", always(reads / _PRICED_READS)
    yield part(CLUSTER, what, region.name, None, count, unit=f"times {_PRICED_READS:,} a month")


def _valkey(region: str, node_type: StoreNodes, replicas: int) -> Part:
    """Return the nodes of an instance of Memorystore for Valkey: a primary and its replicas."""
    what = f"Memorystore for Valkey, {node_type.value}"
    return part(CLUSTER, what, region, None, always(1 + replicas), unit="nodes")


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
        price = run_instance_price(
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


_PUBSUB: Final = "Pub/Sub, messages published and delivered"


def stream_parts(region: RegionPlan, usage: Usage) -> Iterator[Part]:
    """Yield the costs of a region's streams, whose throughput is an assumption."""
    if found := sum(1 for stream in region.streams if not stream.is_kafka):
        yield _pubsub(region, found, "streams", usage)


def _pubsub(region: RegionPlan, readers: int, unit: str, usage: Usage) -> Part:
    """Return the cost of messages, which are charged when published and when delivered.

    What a request has below 1,000 bytes is charged as well (cloud.google.com/pubsub/pricing), which
    is not counted here, because clients send small messages together.
    """
    if usage.events_gib is None:
        return unmeasured(CLUSTER, _PUBSUB, region.name, "--events-gib", readers, unit=unit)
    gib = always(2 * readers * usage.events_gib)
    return listed(CLUSTER, _PUBSUB, region.name, "pubsub-throughput", gib, unit=_GIB)


_STREAMING_ENGINE: Final = "Dataflow Streaming Engine, by what it processes"


def pipeline_parts(region: RegionPlan, mean_share: float, usage: Usage) -> Iterator[Part]:
    """Yield the costs of a region's pipelines: workers, and throughput that is not known before.

    Args:
        region: The region.
        mean_share: Mean over peak traffic, as in `planner.choice.cost.bill`.
        usage: Assumed usage.
    """
    for pipeline in region.pipelines:
        workers = pipeline.settings.workers
        price = dataflow_worker_price(workers.machine_type, region.name, DISK_GIB)
        count = Count(1, max(workers.min, workers.max * mean_share), workers.max)
        what = f"Dataflow {pipeline.name}, {workers.machine_type} with {DISK_GIB} GiB of disk"
        yield part(CLUSTER, what, region.name, price, count, unit="workers")
    if region.pipelines:
        jobs = always(len(region.pipelines))
        yield part(CLUSTER, _STREAMING_ENGINE, region.name, None, jobs, unit="jobs")
        yield _pubsub(region, len(region.pipelines), "pipelines", usage)


_PERSONAL: Final = {
    "buckets": "Cloud Storage of personalized images, by what is kept and by operation",
    "services": "Cloud Run for personalized images, by request",
}


def personal_parts(region: RegionPlan) -> Iterator[Part]:
    """Yield the costs of a region's personalized images, whose use is not known in advance."""
    if region.personal is not None:
        for unit, what in _PERSONAL.items():
            yield part(CLUSTER, what, region.name, None, always(1), unit=unit)


def queue_parts(region: RegionPlan) -> Iterator[Part]:
    """Yield the nodes of a region's queues, at the price of each capacity's first rung.

    Job hours are not known in advance, so the expected cost is zero.
    """
    for queue in region.queues:
        for flavor in queue.flavors:
            rung = next(iter(flavor.capacity.rungs.values()))
            price = _node_price(rung, region.name)
            what = f"queue {queue.name}, {rung.label}, while jobs run"
            yield part(CLUSTER, what, region.name, price, Count(0, 0, flavor.nodes), unit="nodes")


def optimization_parts(region: RegionPlan) -> Iterator[Part]:
    """Yield the price of an hour of each job that optimizes models.

    It is that of a node of the first rung of the jobs' queue. The amounts are zero, because the
    line of the queue has these nodes already.
    """
    plan = region.optimization
    if plan is None:
        return
    queue = region.queue(plan.settings.queue)
    rung = next(iter(queue.flavors[0].capacity.rungs.values()))
    price = _node_price(rung, region.name)
    usd = "without a price" if price is None else f"${price.usd:.2f}"
    for kind, name, _ in trained_models(plan.settings):
        what = f"{kind} {name}, an hour on {rung.label}: {usd}, as queue {queue.name}"
        yield part(CLUSTER, what, region.name, price, always(0), unit="jobs")


def _node_price(rung: Rung, region: str) -> UnitPrice | None:
    """Return the hourly price of a node of a rung, or None if none is published."""
    found = rung_price(rung, region)
    if found is None:
        return None
    return UnitPrice(found.usd_per_hour, "hour", found.source, found.date, found.confidence)
