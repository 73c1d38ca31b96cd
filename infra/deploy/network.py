"""The network of a platform, created or existing, for its regions."""

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi

from gke_inference.cluster.accelerator_networks import AcceleratorNetworks, AcceleratorNetworksArgs
from gke_inference.cluster.network import Network, NetworkArgs, ProxyScope
from gke_inference.cluster.private_services import PrivateServices, PrivateServicesArgs
from gke_inference.cluster.settings import RegionRanges
from infra.plan.network import InterfaceNetworks, NetworkPlan
from infra.stack import Region


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


def build_network(
    plan: NetworkPlan, regions: Mapping[str, Region], project: str, opts: pulumi.ResourceOptions
) -> Mapping[str, RegionNetwork]:
    """Build or reference the network. Return it by region."""
    if plan.existing is not None:
        return {name: _existing(plan.existing, name, each) for name, each in regions.items()}
    network = Network("network", network_args(plan, project), opts)
    after: tuple[pulumi.Resource, ...] = (network,)
    if plan.services_range is not None:
        services = private_services_args(plan, plan.services_range, network.network_id, project)
        behind = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[network]))
        after = (network, PrivateServices("private-services", services, behind))
    interfaces = None
    if plan.interfaces is not None:
        args = accelerator_networks_args(plan.interfaces, project)
        beside = AcceleratorNetworks("accelerator-networks", args, opts)
        interfaces = (beside.networks, beside.subnetworks)
        after = (*after, beside)
    return {
        name: RegionNetwork(
            after=after,
            interfaces=interfaces,
            network=network.network_id,
            pods_range=network.pods_range_name,
            published=None
            if region.published is None
            else network.published_subnetworks.apply(lambda links, region=name: links[region]),
            services_range=network.services_range_name,
            subnetwork=network.subnetworks.apply(lambda names, region=name: names[region]),
        )
        for name, region in regions.items()
    }


def _existing(network: str, name: str, region: Region) -> RegionNetwork:
    subnet = region.existing.subnet
    if subnet is None:
        raise ValueError(f"regions.{name}.existing.subnet must be set")
    where = subnet.name.rpartition("/")[0]
    published = None if subnet.published is None else f"{where}/{subnet.published}"
    return RegionNetwork(network, subnet.name, subnet.pods, subnet.services, published)


def network_args(plan: NetworkPlan, project: str) -> NetworkArgs:
    """Return the arguments of the network that the stack creates."""
    regions: dict[str, RegionRanges] = {**plan.ranges}
    args = NetworkArgs(network_name=plan.name, project=project, regions=regions)
    if plan.mtu is not None:
        args["mtu"] = plan.mtu
    if plan.has_global_proxies:
        args["proxies"] = ProxyScope.GLOBAL
    return args


def private_services_args(
    plan: NetworkPlan, services_range: str, network: pulumi.Input[str], project: str
) -> PrivateServicesArgs:
    """Return the arguments of private services access, which Lustre needs in a new network."""
    return PrivateServicesArgs(
        network=network,
        network_name=plan.name,
        project=project,
        services_cidr=services_range,
    )


def accelerator_networks_args(
    interfaces: InterfaceNetworks, project: str
) -> AcceleratorNetworksArgs:
    """Return the arguments of the networks of interfaces."""
    return AcceleratorNetworksArgs(
        network_name=interfaces.name,
        project=project,
        regions=dict(interfaces.ranges),
        technology=interfaces.technology,
    )
