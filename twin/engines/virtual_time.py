"""An event loop whose clock jumps: what would take minutes is computed as fast as it can be."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any


class _Jumping(selectors.SelectSelector):
    """Never waits: when nothing is ready the loop's time moves to the next timer."""

    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            raise RuntimeError("every task waits for another: the simulation stands still")
        self.now += timeout
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop that sleeps in no time. It is for code without sockets and threads."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        """Return the virtual time, in seconds."""
        return self._jumping.now


class LoopClock:
    """The running loop's time, for engines."""

    def now(self) -> float:
        """Return the time, in seconds."""
        return asyncio.get_running_loop().time()

    async def sleep_until(self, moment: float) -> None:
        """Wait until a moment; not at all where it is past."""
        await asyncio.sleep(max(0.0, moment - self.now()))

    async def wait(self, moment: float, changed: asyncio.Event) -> None:
        """Wait until a moment or until something changed, whichever is first."""
        timer = asyncio.get_running_loop().call_at(moment, changed.set)
        try:
            await changed.wait()
        finally:
            timer.cancel()


def run_virtual(main: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine to its end on a loop of its own and return its result."""
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(main)
    finally:
        loop.close()
