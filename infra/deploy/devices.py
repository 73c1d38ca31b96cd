"""Drivers and interfaces that hand out the chips and networks of a region's nodes to pods."""

import pulumi

from gke_inference.capacity.pool_settings import AdditionalNetworkArgs
from gke_inference.catalogue.node_networks import interface_network
from gke_inference.operators.accelerator_interfaces import (
    AcceleratorInterfaces,
    AcceleratorInterfacesArgs,
)
from gke_inference.operators.device_drivers import DeviceDrivers, DeviceDriversArgs
from infra.deploy.network import RegionNetwork
from infra.plan import RegionPlan


def drive_devices(region: RegionPlan, inside: pulumi.ResourceOptions) -> list[pulumi.Resource]:
    """Build the DRA drivers of a region; nothing if no model claims devices.

    Args:
        region: The region, resolved.
        inside: The cluster's Kubernetes provider, and what must be there before.
    """
    args = driver_args(region)
    if args is None:
        return []
    return [DeviceDrivers(f"{region.name}-device-drivers", args, inside)]


def connect_interfaces(
    region: RegionPlan, network: RegionNetwork, inside: pulumi.ResourceOptions
) -> list[pulumi.Resource]:
    """Build the networks of the interfaces in a cluster; nothing if no node has them.

    Args:
        region: The region, resolved.
        network: The network as the region takes it.
        inside: The cluster's Kubernetes provider, and what must be there before.
    """
    args = interfaces_args(region, network)
    if args is None:
        return []
    return [AcceleratorInterfaces(f"{region.name}-interfaces", args, inside)]


def driver_args(region: RegionPlan) -> DeviceDriversArgs | None:
    """Return the arguments of a region's DRA drivers, where a model there claims devices."""
    kinds = {
        rung.kind
        for capacity in region.used_capacity
        if capacity.is_claimed
        for rung in capacity.rungs.values()
    }
    return DeviceDriversArgs(kinds=sorted(kinds)) if kinds else None


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
