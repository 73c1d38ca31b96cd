"""Wires what hands out the chips and interfaces of a region's nodes to pods."""

import pulumi

from gke_inference.operators.accelerator_interfaces import AcceleratorInterfaces
from gke_inference.operators.device_drivers import DeviceDrivers
from infra.arguments.devices import driver_args, interfaces_args
from infra.arguments.provisioning import RegionNetwork
from infra.plan import RegionPlan
from infra.stack import Platform


def drive_devices(
    platform: Platform, region: RegionPlan, inside: pulumi.ResourceOptions
) -> list[pulumi.Resource]:
    """Build the DRA drivers of a region; nothing if no model claims devices.

    Args:
        platform: The stack.
        region: The region, resolved.
        inside: The cluster's Kubernetes provider, and what must be there before.
    """
    args = driver_args(platform, region)
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
