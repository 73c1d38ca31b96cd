"""The network of a platform, created or existing, for its regions."""

from collections.abc import Mapping

import pulumi

from gke_inference.cluster.accelerator_networks import AcceleratorNetworks
from gke_inference.cluster.network import Network
from gke_inference.cluster.private_services import PrivateServices
from infra.arguments import provisioning as assemble
from infra.arguments.devices import accelerator_networks_args
from infra.arguments.folders import private_services_args
from infra.arguments.provisioning import RegionNetwork
from infra.stack import Platform


def build_network(platform: Platform, opts: pulumi.ResourceOptions) -> Mapping[str, RegionNetwork]:
    """Build or reference the network. Return it by region."""
    args = assemble.network_args(platform)
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
