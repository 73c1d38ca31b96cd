"""The network of a platform, made or existing, as the regions take it."""

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi

from gke_inference.cluster.network import Network
from infra.arguments import provisioning as assemble
from infra.stack import Platform


@dataclass(frozen=True)
class RegionNetwork:
    """The network as the cluster and the gateway of one region take it."""

    network: pulumi.Input[str]
    """Path of the VPC."""
    subnetwork: pulumi.Input[str]
    """Subnet of the nodes: a name, or the path of one that exists."""
    pods_range: pulumi.Input[str] | None
    """Name of the secondary range for pods; None where the cluster exists and has one."""
    services_range: pulumi.Input[str] | None
    """Name of the secondary range for services; None as that for pods."""
    published: pulumi.Input[str] | None = None
    """Subnet that published connections come from; None where nothing is published."""
    after: tuple[pulumi.Resource, ...] = ()
    """What has to be there before the cluster."""


def build_network(platform: Platform, opts: pulumi.ResourceOptions) -> Mapping[str, RegionNetwork]:
    """Build the network, or take the one that is named; return it by region."""
    args = assemble.network_args(platform)
    if args is None:
        return _existing(platform)
    network = Network("network", args, opts)
    return {
        name: RegionNetwork(
            after=(network,),
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
