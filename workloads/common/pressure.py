"""The number of concurrent requests of a worker, which falls when the pool is busy."""

import asyncio
import re
import time
from collections.abc import Callable, Sequence
from typing import Final

import aiohttp

_LOOK_SECONDS: Final = 2.0
_LOOK_TIMEOUT: Final = aiohttp.ClientTimeout(total=2)
_START: Final = 2.0
_LESS: Final = 0.5
_QUIET_SECONDS: Final = 1.0
"""Answers of one moment are one sign: the limit shrinks once in so long."""
_QUEUE: Final = re.compile(r"^inference_pool_average_queue_size(?:\{[^}]*\})? (\S+)", re.MULTILINE)


class Pressure:
    """An adaptive limit: it grows by one for a whole round of answers and halves when refused.

    While the pool's own queue is longer than the stream may cause, no request begins, so that what
    waits there is interactive traffic.
    """

    def __init__(self, most: int, now: Callable[[], float] = time.monotonic) -> None:
        self._most = float(most)
        self._now = now
        self._limit = min(_START, self._most)
        self._shrunk = float("-inf")
        self._rest_until = 0.0
        self._crowded = False
        self._running = 0
        self._changed = asyncio.Condition()

    @property
    def limit(self) -> int:
        """Most requests at once, at the moment."""
        return 0 if self._crowded else int(self._limit)

    @property
    def running(self) -> int:
        """Requests under way."""
        return self._running

    async def enter(self) -> None:
        """Wait until another request may begin."""
        async with self._changed:
            while self._running >= self.limit or self._now() < self._rest_until:
                rest = self._rest_until - self._now()
                try:
                    await asyncio.wait_for(self._changed.wait(), max(rest, 0.01) if rest > 0 else 1)
                except TimeoutError:
                    continue
            self._running += 1

    async def leave(self) -> None:
        """Report that a request is over."""
        async with self._changed:
            self._running -= 1
            self._changed.notify_all()

    def answered(self) -> None:
        """Raise the limit after an answer."""
        if self._running >= int(self._limit):
            self._limit = min(self._most, self._limit + 1 / max(self._limit, 1.0))

    def refused(self, retry_after: float | None = None) -> None:
        """Lower the limit after a refusal."""
        now = self._now()
        if now - self._shrunk >= _QUIET_SECONDS:
            self._limit = max(1.0, self._limit * _LESS)
            self._shrunk = now
        if retry_after is not None:
            self._rest_until = max(self._rest_until, now + retry_after)

    def crowded(self, is_crowded: bool) -> None:
        """Record whether the pool has a queue."""
        if is_crowded and not self._crowded:
            self._limit = max(1.0, self._limit * _LESS)
        self._crowded = is_crowded


def queue_of(exposition: str) -> float | None:
    """Return the waiting requests per replica that a picker's metrics tell, the most of its pools.

    The name is that of gateway-api-inference-extension (pkg/epp/metrics).
    """
    found = [float(value) for value in _QUEUE.findall(exposition)]
    return max(found) if found else None


async def look(
    urls: Sequence[str], most: float, session: aiohttp.ClientSession, pressure: Pressure
) -> None:
    """Read the queues of the pools from their pickers; without an answer, a queue is empty.

    Args:
        urls: URLs of the pickers' metrics; empty if no queue counts.
        most: Waiting requests per replica above which no request is sent.
        session: Session of the calls.
        pressure: Limit that the longest queue crowds.
    """
    while urls:
        queues: list[float] = []
        for url in urls:
            try:
                async with session.get(url, timeout=_LOOK_TIMEOUT) as response:
                    queues.append(queue_of(await response.text()) or 0.0)
            except (aiohttp.ClientError, TimeoutError):
                continue
        pressure.crowded(max(queues, default=0.0) > most)
        await asyncio.sleep(_LOOK_SECONDS)
