"""The stacks of stacks/, read once, and parts of a resolved stack by the names tests know."""

import functools

from infra.plan import RegionPlan, ServedModel, resolve
from infra.reading.load import read
from infra.stack import Platform


@functools.cache
def stack(name: str) -> Platform:
    """Return a stack of stacks/."""
    return read(name)


def region_of(platform: Platform, region: str) -> RegionPlan:
    """Return a region of a stack, resolved."""
    return resolve(platform).regions[region]


def served_in(platform: Platform, model: str, region: str) -> ServedModel:
    """Return a model as a region of a stack serves it."""
    return next(each for each in region_of(platform, region).served if each.name == model)
