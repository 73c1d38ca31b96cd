"""The network of a platform, created or existing, for its regions."""

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi

from gke_inference.cluster.accelerator_networks import AcceleratorNetworks, AcceleratorNetworksArgs
from gke_inference.cluster.network import Network, NetworkArgs, ProxyScope
from gke_inference.cluster.private_services import PrivateServices, PrivateServicesArgs
from infra.plan.front import has_fleet_gateway
from infra.plan.names import resolve_names
from infra.plan.storage import services_range
from infra.stack import Platform


@dataclass(frozen=True)
class RegionNetwork:
    """The network of one region, for its cluster and gateway."""

    network: pulumi.Input[str]
    """Path of the VPC."""
    subnetwork: pulumi.Input[str]
    """Subnet of the nodes: a name, or the path of an existing subnet."""
    pods_range: pulumi.Input[str] | None
    """Name of the secondary range for pods, or None for an existing cluster."""
    services_range: pulumi.Input[str] | None
    """Name of the secondary range for services, or None for an existing cluster."""
    published: pulumi.Input[str] | None = None
    """Private Service Connect subnet, or None if nothing is published."""
    interfaces: tuple[pulumi.Input[list[str]], pulumi.Input[list[str]]] | None = None
    """Names of the networks of interfaces and of their subnets, or None if no node has them."""
    after: tuple[pulumi.Resource, ...] = ()
    """Dependencies of the cluster."""


def build_network(platform: Platform, opts: pulumi.ResourceOptions) -> Mapping[str, RegionNetwork]:
    """Build or reference the network. Return it by region."""
    args = network_args(platform)
    if args is None:
        return _existing(platform)
    network = Network("network", args, opts)
    services = private_services_args(platform, network.network_id)
    after: tuple[pulumi.Resource, ...] = (network,)
    if services is not None:
        behind = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[network]))
        after = (network, PrivateServices("private-services", services, behind))
    interfaces = None
    of_interfaces = accelerator_networks_args(platform)
    if of_interfaces is not None:
        beside = AcceleratorNetworks("accelerator-networks", of_interfaces, opts)
        interfaces = (beside.networks, beside.subnetworks)
        after = (*after, beside)
    return {
        name: RegionNetwork(
            after=after,
            interfaces=interfaces,
            network=network.network_id,
            pods_range=network.pods_range_name,
            published=None
            if platform.regions[name].published is None
            else network.published_subnetworks.apply(lambda links, region=name: links[region]),
            services_range=network.services_range_name,
            subnetwork=network.subnetworks.apply(lambda names, region=name: names[region]),
        )
        for name in platform.regions
    }


def _existing(platform: Platform) -> dict[str, RegionNetwork]:
    found: dict[str, RegionNetwork] = {}
    for name, region in platform.regions.items():
        network, subnet = platform.existing.network, region.existing.subnet
        if network is None or subnet is None:
            raise ValueError(f"regions.{name}.existing.subnet must be set")
        where = subnet.name.rpartition("/")[0]
        published = None if subnet.published is None else f"{where}/{subnet.published}"
        found[name] = RegionNetwork(network, subnet.name, subnet.pods, subnet.services, published)
    return found


def network_args(platform: Platform) -> NetworkArgs | None:
    """Return the arguments of the network, if the stack creates it."""
    if platform.existing.network is not None:
        return None
    args = NetworkArgs(
        network_name=resolve_names(platform).network(),
        project=platform.project,
        regions={
            name: region.ranges
            for name, region in platform.regions.items()
            if region.ranges is not None
        },
    )
    if platform.mtu is not None:
        args["mtu"] = platform.mtu
    if has_fleet_gateway(platform.gateway):
        args["proxies"] = ProxyScope.GLOBAL
    return args


def private_services_args(
    platform: Platform, network: pulumi.Input[str]
) -> PrivateServicesArgs | None:
    """Return the arguments of private services access, if Lustre needs it in a new network."""
    found = services_range(platform)
    if found is None:
        return None
    return PrivateServicesArgs(
        network=network,
        network_name=resolve_names(platform).network(),
        project=platform.project,
        services_cidr=found,
    )


def accelerator_networks_args(platform: Platform) -> AcceleratorNetworksArgs | None:
    """Return the arguments of the networks of interfaces, where a region has them."""
    ranges = {
        name: region.ranges.accelerators
        for name, region in platform.regions.items()
        if region.ranges is not None and region.ranges.accelerators is not None
    }
    technology = platform.interface_network()
    if not ranges or technology is None:
        return None
    return AcceleratorNetworksArgs(
        network_name=resolve_names(platform).accelerator_networks(),
        project=platform.project,
        regions=ranges,
        technology=technology,
    )
