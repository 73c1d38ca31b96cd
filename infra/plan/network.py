"""The resolved network: a VPC of the stack, or an existing one."""

from collections.abc import Mapping
from dataclasses import dataclass

from infra.plan.names import Names
from infra.stack import Platform, Ranges


@dataclass(frozen=True)
class InterfaceNetworks:
    """Networks of the interfaces of accelerators, which all regions share."""

    name: str
    """Prefix of their names."""
    technology: str
    """`tcpx` or `tcpxo`."""
    ranges: Mapping[str, str]
    """Range that they divide, by region."""


@dataclass(frozen=True)
class NetworkPlan:
    """The VPC of a stack."""

    name: str
    """Name of the VPC that the stack creates."""
    existing: str | None
    """Path of an existing VPC, or None if the stack creates one."""
    host_project: str | None
    """Project of the VPC, if it is another one."""
    mtu: int | None
    has_global_proxies: bool
    """Whether one gateway serves the clients of all regions."""
    ranges: Mapping[str, Ranges]
    """Ranges of the subnets that the stack creates, by region."""
    services_range: str | None
    """Range for private services access, if the stack makes it."""
    interfaces: InterfaceNetworks | None
    """None if no node has such interfaces."""

    @property
    def is_created(self) -> bool:
        """Whether the stack creates the VPC."""
        return self.existing is None


def resolve_network(platform: Platform, names: Names, services_range: str | None) -> NetworkPlan:
    """Return the network of a stack."""
    existing = platform.existing.network
    host = None if existing is None else existing.split("/")[1]
    ranges = {
        name: region.ranges
        for name, region in platform.regions.items()
        if region.ranges is not None
    }
    return NetworkPlan(
        name=names.network(),
        existing=existing,
        host_project=None if host == platform.project else host,
        mtu=platform.mtu,
        has_global_proxies=platform.gateway.has_fleet_gateway,
        ranges=ranges,
        services_range=services_range,
        interfaces=_interfaces(platform.interface_network(), ranges, names),
    )


def _interfaces(
    technology: str | None, ranges: Mapping[str, Ranges], names: Names
) -> InterfaceNetworks | None:
    by_region = {name: each.accelerators for name, each in ranges.items()}
    ranges_set = {name: cidr for name, cidr in by_region.items() if cidr is not None}
    if technology is None or not ranges_set:
        return None
    return InterfaceNetworks(names.accelerator_networks(), technology, ranges_set)
