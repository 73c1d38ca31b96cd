"""Time that stands still until everything under way has arrived."""

import asyncio


class StillClock:
    """Engine time that only `move` moves: a clock for engines and a pace for clients."""

    def __init__(self) -> None:
        self._now = 0.0
        self._sleepers: dict[asyncio.Event, float] = {}

    def now(self) -> float:
        """Return the time, in engine seconds."""
        return self._now

    def move(self, moment: float) -> None:
        """Go on to a moment and wake who waited for it.

        Raises:
            ValueError: the moment is past.
        """
        if moment < self._now:
            raise ValueError(f"moment must not be before {self._now}, got {moment}")
        self._now = moment
        for sleeper, due in self._sleepers.items():
            if due <= moment:
                sleeper.set()

    async def sleep_until(self, moment: float) -> None:
        """Wait until a moment; not at all where it is past."""
        woken = asyncio.Event()
        while moment > self._now:
            woken.clear()
            await self.wait(moment, woken)

    async def wait(self, moment: float, changed: asyncio.Event) -> None:
        """Wait until a moment or until something changed."""
        if moment <= self._now:
            await asyncio.sleep(0)
            return
        self._sleepers[changed] = moment
        try:
            await changed.wait()
        finally:
            self._sleepers.pop(changed, None)
