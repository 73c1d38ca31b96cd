"""The stack, resolved once into immutable records."""

from infra.plan.canary import CanaryVersion, canary_model
from infra.plan.capacity import (
    CapacityByRegion,
    RegionCapacity,
    capacity_by_region,
    prefill_capacity,
)
from infra.plan.resolve import Plan, RegionPlan, resolve
from infra.plan.served import ServedModel
from infra.plan.system_nodes import SystemNodes

__all__ = [
    "CanaryVersion",
    "CapacityByRegion",
    "Plan",
    "RegionCapacity",
    "RegionPlan",
    "ServedModel",
    "SystemNodes",
    "canary_model",
    "capacity_by_region",
    "prefill_capacity",
    "resolve",
]
