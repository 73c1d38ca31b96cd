"""The clocks of an engine.

There are three clocks. `WallClock` follows real time. The sender of requests advances `StillClock`
when all pending messages of real programs have arrived. `LoopClock` is for coroutines alone: on
`run_virtual`, the event loop jumps from timer to timer. (Code without coroutines needs no clock:
see `simulator.engine.replay`.)
"""

import asyncio
import selectors
import time
from collections.abc import Coroutine
from typing import Any, Protocol


class Clock(Protocol):
    """Engine time, in which all timestamps, metrics and step durations of an engine are stated."""

    def now(self) -> float:
        """Return the time, in seconds."""
        ...

    async def sleep_until(self, moment: float) -> None:
        """Wait until a time; return at once if it is past."""
        ...

    async def wait(self, moment: float, changed: asyncio.Event) -> None:
        """Wait until a time or a change, whichever comes first."""
        ...


class WallClock:
    """Real time, or time that runs `speed` times as fast.

    Args:
        speed: engine seconds per second of real time.

    Raises:
        ValueError: the speed is not positive.
    """

    def __init__(self, speed: float = 1.0) -> None:
        if speed <= 0:
            raise ValueError(f"speed must be above 0, got {speed}")
        self.speed = speed

    def now(self) -> float:
        """Return the time, in engine seconds."""
        return time.monotonic() * self.speed

    async def sleep_until(self, moment: float) -> None:
        """Wait until a time; return at once if it is past."""
        await asyncio.sleep(max(0.0, moment / self.speed - time.monotonic()))

    async def wait(self, moment: float, changed: asyncio.Event) -> None:
        """Wait until a time or a change, whichever comes first."""
        delay = moment / self.speed - time.monotonic()
        if delay <= 0:
            await asyncio.sleep(0)
            return
        timer = asyncio.get_running_loop().call_later(delay, changed.set)
        try:
            await changed.wait()
        finally:
            timer.cancel()


class StillClock:
    """Engine time that only `move` advances: a clock for engines and a pace for clients."""

    def __init__(self) -> None:
        self._now = 0.0
        self._sleepers: dict[asyncio.Event, float] = {}

    def now(self) -> float:
        """Return the time, in engine seconds."""
        return self._now

    def move(self, moment: float) -> None:
        """Advance to a time and wake its waiters.

        Raises:
            ValueError: the time is in the past.
        """
        if moment < self._now:
            raise ValueError(f"moment must not be before {self._now}, got {moment}")
        self._now = moment
        for sleeper, due in self._sleepers.items():
            if due <= moment:
                sleeper.set()

    async def sleep_until(self, moment: float) -> None:
        """Wait until a time; return at once if it is past."""
        woken = asyncio.Event()
        while moment > self._now:
            woken.clear()
            await self.wait(moment, woken)

    async def wait(self, moment: float, changed: asyncio.Event) -> None:
        """Wait until a time or a change."""
        if moment <= self._now:
            await asyncio.sleep(0)
            return
        self._sleepers[changed] = moment
        try:
            await changed.wait()
        finally:
            self._sleepers.pop(changed, None)


class _Jumping(selectors.SelectSelector):
    """A selector that never waits: if nothing is ready, the loop's time jumps to the next timer."""

    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            raise RuntimeError("every task waits for another: the simulation stands still")
        self.now += timeout
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop that sleeps in zero real time, for code without sockets and threads."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        """Return the virtual time, in seconds."""
        return self._jumping.now


class LoopClock:
    """The time of the running loop, for engines."""

    def now(self) -> float:
        """Return the time, in seconds."""
        return asyncio.get_running_loop().time()

    async def sleep_until(self, moment: float) -> None:
        """Wait until a time; return at once if it is past."""
        await asyncio.sleep(max(0.0, moment - self.now()))

    async def wait(self, moment: float, changed: asyncio.Event) -> None:
        """Wait until a time or a change, whichever comes first."""
        timer = asyncio.get_running_loop().call_at(moment, changed.set)
        try:
            await changed.wait()
        finally:
            timer.cancel()


def run_virtual(main: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine on its own loop and return its result."""
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(main)
    finally:
        loop.close()
