"""Costs of load balancers, NAT gateways and traffic."""

from collections.abc import Iterable, Iterator
from typing import Final

from gke_inference.catalogue.platform_prices import unit_price
from infra.estimate.cost_parts import NETWORK, Nodes, Part, always, hourly, listed, part
from infra.estimate.usage import Usage
from infra.plan.front import FrontPlan
from infra.stack import Front, Gateway
from planner.amount import Amount
from planner.choice.cost import HOURS_PER_MONTH

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


def network_parts(
    gateway: Gateway, region: str, nodes: Iterable[Nodes], usage: Usage, *, has_nat: bool
) -> Iterator[Part]:
    """Yield the network costs of a region. An existing network has its own NAT.

    Args:
        gateway: Settings of the region's gateway.
        region: The region.
        nodes: All nodes of the region.
        usage: Usage assumptions.
        has_nat: Whether the stack creates the network.
    """
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
    if has_nat:
        yield _nat_gateway(region, nodes)
        yield listed(NETWORK, "NAT address", region, "nat-address", always(1))


def front_parts(front: FrontPlan, usage: Usage) -> Iterator[Part]:
    """Yield the costs of the front. Data is billed in the region whose gateway serves it.

    Args:
        front: Endpoints of the stack.
        usage: Usage assumptions per region.
    """
    if front.gateway.has_fleet_gateway:
        yield part(NETWORK, "multi-cluster gateway", "", None, always(1))
    if front.gateway.front is not Front.GLOBAL:
        return
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
