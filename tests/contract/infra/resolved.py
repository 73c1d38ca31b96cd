"""Parts of a resolved stack, by the names that tests know them by."""

from infra.plan import RegionPlan, ServedModel, resolve
from infra.stack import Platform


def region_of(platform: Platform, region: str) -> RegionPlan:
    """Return a region of a stack, resolved."""
    return resolve(platform).regions[region]


def served_in(platform: Platform, model: str, region: str) -> ServedModel:
    """Return a model as a region of a stack serves it."""
    return next(each for each in region_of(platform, region).served if each.name == model)
