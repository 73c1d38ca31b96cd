"""Where an engine takes its time from: the wall, as it is or sped up, or a replay."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Engine time: what every timestamp, metric and step duration of an engine is stated in."""

    def now(self) -> float:
        """Return the time, in seconds."""
        ...

    async def sleep_until(self, moment: float) -> None:
        """Wait until a moment; not at all where it is past."""
        ...

    async def wait(self, moment: float, changed: asyncio.Event) -> None:
        """Wait until a moment or until something changed, whichever is first."""
        ...


class WallClock:
    """Real time, or time that passes `speed` times as fast.

    Args:
        speed: engine seconds in a second of the wall.

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
        """Wait until a moment; not at all where it is past."""
        await asyncio.sleep(max(0.0, moment / self.speed - time.monotonic()))

    async def wait(self, moment: float, changed: asyncio.Event) -> None:
        """Wait until a moment or until something changed, whichever is first."""
        delay = moment / self.speed - time.monotonic()
        if delay <= 0:
            await asyncio.sleep(0)
            return
        timer = asyncio.get_running_loop().call_later(delay, changed.set)
        try:
            await changed.wait()
        finally:
            timer.cancel()
