"""From capacity to the arguments of drivers: of devices that pods claim, and of interfaces."""

import pulumi

from gke_inference.capacity.pool_settings import AdditionalNetworkArgs
from gke_inference.catalogue.node_networks import interface_network
from gke_inference.cluster.accelerator_networks import AcceleratorNetworksArgs
from gke_inference.operators.accelerator_interfaces import AcceleratorInterfacesArgs
from gke_inference.operators.device_drivers import DeviceDriversArgs
from infra.arguments.provisioning import RegionNetwork
from infra.plan import RegionPlan
from infra.plan.names import Names
from infra.stack import Platform


def driver_args(platform: Platform, region: RegionPlan) -> DeviceDriversArgs | None:
    """Return the arguments of a region's DRA drivers, where a model there claims devices."""
    claimed = platform.claimed_capacity()
    kinds = {
        rung.kind
        for capacity in region.used_capacity
        if capacity.name in claimed
        for rung in capacity.rungs.values()
    }
    return DeviceDriversArgs(kinds=sorted(kinds)) if kinds else None


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
        network_name=Names(platform).accelerator_networks(),
        project=platform.project,
        regions=ranges,
        technology=technology,
    )


def interfaces_args(region: RegionPlan, network: RegionNetwork) -> AcceleratorInterfacesArgs | None:
    """Return the arguments of the interfaces of a cluster, where its nodes have them."""
    technology = region.interface_network
    if network.interfaces is None or technology is None:
        return None
    networks, subnetworks = network.interfaces
    return AcceleratorInterfacesArgs(
        networks=networks, subnetworks=subnetworks, technology=technology
    )


def additional_networks(region: RegionPlan, network: RegionNetwork) -> list[AdditionalNetworkArgs]:
    """Return the networks of the interfaces of a region's node pools."""
    technology = region.interface_network
    if network.interfaces is None or technology is None:
        return []
    networks, subnetworks = (pulumi.Output.from_input(names) for names in network.interfaces)
    return [
        AdditionalNetworkArgs(network=networks[at], subnetwork=subnetworks[at])
        for at in range(interface_network(technology).interfaces)
    ]
