"""From the capacity that models claim to the arguments of DRA drivers."""

from gke_inference.operators.device_drivers import DeviceDriversArgs
from infra.plan import RegionPlan
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
