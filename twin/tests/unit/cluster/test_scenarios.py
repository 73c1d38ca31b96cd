"""Scenarios: their files, and the effect of steps on the world."""

import pytest

from twin.world import scenario as scenarios
from twin.world.capacity import StockLine, World
from twin.world.quota import QuotaLine
from twin.world.scenario import Change, Step, changed

GPUS = QuotaLine(metric="GPUS_ALL_REGIONS", limit=2)
CPUS = QuotaLine(metric="CPUS", region="us-central1", limit=24)


@pytest.mark.parametrize("name", scenarios.names())
def test_every_scenario_can_be_read_and_is_called_like_its_file(name):
    assert scenarios.load(scenarios.find(name)).name == name


def test_a_step_replaces_all_limits_and_leaves_the_stock():
    stock = (StockLine(zone="*", accelerator="nvidia-l4", chips=4),)
    world = World(stock=stock, quota=(GPUS,))
    after = changed(world, Step(title="raised", after=0, quota=(CPUS,)))
    assert (after.quota, after.stock) == ((CPUS,), stock)
    assert changed(world, Step(title="lifted", after=0, quota=())).quota == ()


def test_a_step_about_stock_leaves_the_limits():
    step = Step(title="gone", after=0, set=(Change(zone="*", accelerator="nvidia-l4", chips=0),))
    assert changed(World(quota=(GPUS,)), step).quota == (GPUS,)


def test_a_region_is_lost_when_all_of_its_zones_are_down():
    assert World(outages=("europe-west4-*",)).is_lost("europe-west4") is True
    assert World(outages=("europe-west4-a",)).is_lost("europe-west4") is False
    assert World(outages=("europe-west4-*",)).is_lost("us-central1") is False
    assert World(outages=("*",)).is_lost("nowhere") is False
