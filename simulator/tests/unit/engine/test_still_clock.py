"""Time stands still until it is moved."""

import asyncio

import pytest

from simulator.engine.clock import StillClock


def test_who_waits_is_woken_when_time_has_moved_far_enough():
    async def main():
        clock = StillClock()
        early, late = asyncio.Event(), asyncio.Event()
        first = asyncio.create_task(clock.wait(1.0, early))
        second = asyncio.create_task(clock.wait(2.0, late))
        await asyncio.sleep(0)
        clock.move(1.0)
        await first
        assert not second.done()
        clock.move(5.0)
        await second
        assert clock.now() == 5.0

    asyncio.run(main())


def test_a_change_wakes_too():
    async def main():
        clock = StillClock()
        changed = asyncio.Event()
        waiting = asyncio.create_task(clock.wait(9.0, changed))
        await asyncio.sleep(0)
        changed.set()
        await waiting
        assert clock.now() == 0.0

    asyncio.run(main())


def test_a_sleeper_sleeps_until_its_moment():
    async def main():
        clock = StillClock()
        sleeper = asyncio.create_task(clock.sleep_until(3.0))
        for moment in (1.0, 2.0):
            await asyncio.sleep(0)
            clock.move(moment)
        assert not sleeper.done()
        await asyncio.sleep(0)
        clock.move(3.0)
        await sleeper

    asyncio.run(main())


def test_time_does_not_go_back():
    clock = StillClock()
    clock.move(2.0)
    with pytest.raises(ValueError, match=r"must not be before 2\.0, got 1\.0"):
        clock.move(1.0)
