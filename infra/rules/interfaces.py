"""Rules about GPUDirect-TCPX and -TCPXO: what their interfaces need of a stack."""

import ipaddress
from collections.abc import Iterator

from gke_inference.catalogue.input_error import Bare, InputError
from gke_inference.catalogue.node_networks import INTERFACE_NETWORKS, interface_network
from gke_inference.catalogue.problems import join
from infra.plan import CapacityByRegion, RegionCapacity
from infra.stack import ClusterMode, Layer, Platform

_RESERVED = 4
"""Addresses of a subnet that Google keeps (docs.cloud.google.com/vpc/docs/subnets)."""


def check_interfaces(platform: Platform, by_region: CapacityByRegion) -> Iterator[InputError]:
    """Yield the problems of rungs with TCPX or TCPXO, and of the ranges of their networks.

    Args:
        platform: The stack.
        by_region: Its capacity, resolved.
    """
    mixed = _mixed(platform)
    if mixed is not None:
        yield mixed
        return
    for region in platform.regions:
        every = [by_region[name][region] for name in platform.capacity]
        used = [capacity for capacity in every if capacity.is_used]
        with_interfaces = [capacity for capacity in used if capacity.interface_rungs]
        problems = [
            problem
            for capacity in with_interfaces
            for problem in _check_capacity(platform, capacity, used)
        ]
        yield from problems
        if not problems and not any(capacity.problems for capacity in used):
            yield from _check_range(platform, region, with_interfaces)


def _mixed(platform: Platform) -> InputError | None:
    """Return the first rung whose interfaces are not those of the rungs before it.

    All regions share the VPC networks of the interfaces.
    """
    used = platform.interface_network()
    for name, capacity in platform.capacity.items():
        for at, rung in enumerate(capacity.rungs):
            given = None if rung.network is None else rung.network.value
            if given in INTERFACE_NETWORKS and given != used:
                field = join("capacity", name, "rungs", at, "network")
                rule = f"must be 'tcp' in a stack with {used}, whose networks all regions share"
                return InputError(field, rule, given)
    return None


def _check_capacity(
    platform: Platform, capacity: RegionCapacity, used: list[RegionCapacity]
) -> Iterator[InputError]:
    """Yield the first reason why nodes of a capacity cannot have the interfaces."""
    where, region = join("capacity", capacity.name), capacity.region
    first = capacity.interface_rungs[0]
    field, given = join(where, "rungs", first, "network"), capacity.rungs[first].network
    if platform.regions[region].mode is ClusterMode.AUTOPILOT:
        yield InputError(field, f"must be 'tcp' in {region}, which is autopilot", given)
    elif platform.existing.network is not None:
        rule = "must be 'tcp' when existing.network is set: its networks belong to a new cluster"
        yield InputError(field, rule, given)
    elif platform.layer is not Layer.ALL:
        rule = f"must be 'tcp' when layer is {platform.layer.value}"
        note = ": its pods need a privileged namespace"
        yield InputError(field, rule, given, note)
    elif capacity.is_for_jobs:
        yield InputError(field, "must be 'tcp' for nodes of queues", given)
    elif any(each.has_rdma for each in used):
        rule = f"must be 'tcp' in {region}, where other rungs have rdma"
        note = ": two drivers would manage the interfaces of its nodes"
        yield InputError(field, rule, given, note)
    elif capacity.settings.node_pools is None:
        rule = (
            f"is required with network {given}: a compute class cannot name the networks of nodes"
        )
        yield InputError(join(where, "node_pools"), rule)


def _check_range(
    platform: Platform, region: str, found: list[RegionCapacity]
) -> Iterator[InputError]:
    ranges = platform.regions[region].ranges
    if ranges is None:
        return
    where, given = join("regions", region, "ranges", "accelerators"), ranges.accelerators
    if not found:
        if given is not None:
            words = " or ".join(INTERFACE_NETWORKS)
            rule = f"must be omitted: no rung in {region} has network {words}"
            yield InputError(where, rule, given)
        return
    network = interface_network(str(found[0].rungs[found[0].interface_rungs[0]].network))
    if given is None:
        names = ", ".join(capacity.name for capacity in found)
        yield InputError(where, f"is required: {names} has network {network.name}")
        return
    try:
        addresses = ipaddress.IPv4Network(given).num_addresses
    except ValueError:
        return  # `check_regions` reports it
    count, nodes = network.interfaces, sum(_nodes(platform, each) for each in found)
    room = addresses // count - _RESERVED
    if nodes > room:
        rule = f"must have room for {nodes} nodes in each of {count} networks"
        yield InputError(where, rule, Bare(f"{given}, for {room}"))


def _nodes(platform: Platform, capacity: RegionCapacity) -> int:
    """Return the most nodes of the pools with the interfaces.

    Limits of flex-start pools are per zone. Node pools are upgraded one after another, so the surge
    counts once.
    """
    pools = capacity.settings.node_pools
    if pools is None:
        return 0
    own = len(platform.regions[capacity.region].zones)
    nodes, surge = 0, 0
    for at in capacity.interface_rungs:
        rung = capacity.rungs[at]
        zones = len(rung.reservation_zones or rung.zones) or own
        nodes += pools.max_nodes * (zones if rung.provisioning == "flex-start" else 1)
        surge = pools.max_surge if rung.has_surge else surge
    return nodes + surge
