"""What load balancers, NAT gateways and traffic of a platform cost."""

from collections.abc import Iterable, Iterator
from typing import Final

from gke_inference.catalogue.platform_prices import unit_price
from infra.cost.nodes import Nodes
from infra.cost.parts import NETWORK, Part, always, hourly, listed, part
from infra.cost.usage import Usage
from infra.plan.front import has_internal_gateways, in_front, is_published
from infra.stack import Front, Platform
from planner.amount import Amount

_MOST_BY_MACHINE: Final = 32
"""Machines up to which a NAT gateway costs by the machine (cloud.google.com/nat/pricing)."""
_GIB: Final = "GiB a month"


def network_parts(
    platform: Platform, region: str, nodes: Iterable[Nodes], usage: Usage
) -> Iterator[Part]:
    """Yield what the network of a region costs; a network that exists has its own NAT.

    Args:
        platform: The stack.
        region: Name of one of its regions.
        nodes: All nodes of the region.
        usage: What is assumed.
    """
    traffic = always(usage.traffic_gib)
    if not has_internal_gateways(platform.gateway):
        balancer = "external load balancer"
        yield listed(NETWORK, f"{balancer}, forwarding rule", region, "forwarding-rules", always(1))
        item = "external-load-balancer-data"
        yield listed(NETWORK, f"{balancer}, data both ways", region, item, traffic * 2, unit=_GIB)
        yield part(NETWORK, "Cloud Armor policy", region, None, always(1))
        yield part(NETWORK, "traffic to the internet", region, None, traffic, unit=_GIB)
    else:
        balancer = "internal load balancer"
        yield part(NETWORK, f"{balancer}, proxy instances", region, None, always(1))
        yield part(NETWORK, f"{balancer}, data both ways", region, None, traffic * 2, unit=_GIB)
    if is_published(platform.gateway):
        yield part(NETWORK, "Private Service Connect, data", region, None, traffic * 2, unit=_GIB)
    if platform.existing.network is None:
        yield _nat_gateway(region, nodes)
        yield listed(NETWORK, "NAT address", region, "nat-address", always(1))


def front_parts(platform: Platform, usage: Usage) -> Iterator[Part]:
    """Yield what the front over all regions costs; prices of global ones are in no catalogue yet.

    Args:
        platform: The stack.
        usage: What is assumed, of each region.
    """
    if platform.gateway.front is not Front.GLOBAL:
        return
    traffic = always(usage.traffic_gib * len(in_front(platform)))
    balancer = "global load balancer"
    yield part(NETWORK, f"{balancer}, forwarding rules", "", None, always(1))
    yield part(NETWORK, f"{balancer}, data both ways", "", None, traffic * 2, unit=_GIB)
    yield part(NETWORK, "Cloud Armor policy of the front", "", None, always(1))
    yield part(NETWORK, "traffic of the front to the internet", "", None, traffic, unit=_GIB)


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
