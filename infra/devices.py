"""Wires what hands out the chips of a region that pods claim as devices."""

import pulumi

from gke_inference.operators.device_drivers import DeviceDrivers
from infra.arguments.devices import driver_args
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
