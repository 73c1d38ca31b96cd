"""A replay in lockstep: time stands still while real programs make routing decisions.

Nothing happens in a simulated engine between two events, so time can jump from one to the next. It
jumps only when every sent request has reached a replica, every generated token has reached the
client, and the picker has read the replicas' metrics as often as in real time. The speed and load
of the machine therefore affect only the duration of a run. The gateway's own latency is excluded
from the times.
"""

import asyncio
from collections.abc import Callable, Iterator

from bench.laboratory.replicas import LabEngine, Replicas
from simulator.engine.replay import LOOK_SECONDS
from simulator.traffic import Client, Options, Record, Report, Trace, TraceEntry

_PATIENCE_SECONDS = 60.0


class StuckError(Exception):
    """A pending message did not arrive; the message of the error names it."""


class Lockstep:
    """Replay of traces through a gateway in front of replicas.

    Args:
        replicas: replicas behind the gateway.
        url: URL of the gateway.
        with_picker: whether a picker reads the replicas' metrics.
    """

    def __init__(self, replicas: Replicas, url: str, *, with_picker: bool) -> None:
        self._replicas = replicas
        self._url = url
        self._with_picker = with_picker
        self._clock = replicas.clock
        self._next: dict[LabEngine, float | None] = dict.fromkeys(replicas.engines)
        self._arrived = 0
        self._firsts = 0
        self._done = 0
        self._refused = 0
        self._last_tick = -1
        self.ticks = 0
        """Number of times that the picker read the replicas' metrics."""
        self._news = asyncio.Event()
        for engine in replicas.engines:
            engine.on_arrival = self._arrival

    def _arrival(self) -> None:
        self._arrived += 1
        self._news.set()

    def _first(self, _number: int) -> None:
        self._firsts += 1
        self._news.set()

    def _ended(self, _task: asyncio.Task[Record]) -> None:
        self._done += 1
        self._news.set()

    async def replay(self, trace: Trace) -> Report:
        """Send a trace, wait until all of it has ended, and return what the client saw.

        Raises:
            StuckError: a part of the laboratory makes no progress.
        """
        start = self._clock.now()
        tasks: list[asyncio.Task[Record]] = []
        done = self._done
        # in real seconds; on a busy machine, requests for which time waits must not time out
        options = Options(timeout_seconds=3600.0, connect_seconds=600.0)
        async with Client(self._url, self._clock, options, self._first) as client:
            for number, ask in enumerate(trace.asks):
                await self._tick(start + ask.at)
                await self._advance(start + ask.at)
                tasks.append(await self._send(client, number, ask, start))
            while self._done - done < len(tasks):
                soonest = self._soonest()
                if soonest is None:
                    raise StuckError(f"{len(tasks) - self._done + done} requests do not end")
                await self._advance(soonest)
            return Report(tuple(await asyncio.gather(*tasks)))

    async def _tick(self, moment: float) -> None:
        """Let the picker read the metrics as of its last look before a time."""
        tick = int(moment / LOOK_SECONDS)
        if not self._with_picker or tick <= self._last_tick:
            return
        self._last_tick = tick
        self.ticks += 1
        await self._advance(max(self._clock.now(), tick * LOOK_SECONDS))
        for engine in self._replicas.engines:
            engine.catch_up()
        await self._quiet()
        try:
            await self._replicas.pages.refresh(_PATIENCE_SECONDS)
        except TimeoutError as error:
            raise StuckError("the picker does not read the replicas' metrics") from error

    async def _send(
        self, client: Client, number: int, ask: TraceEntry, start: float
    ) -> asyncio.Task[Record]:
        body = ask.body()
        before, done = self._arrived, self._done
        task = asyncio.create_task(client.send(number, ask, body, start))
        task.add_done_callback(self._ended)
        await self._until(
            lambda: self._arrived > before or self._done > done, "a request reaches no replica"
        )
        if self._arrived > before:
            self._next = dict.fromkeys(self._replicas.engines)
        else:
            self._refused += 1
        return task

    def _soonest(self) -> float | None:
        moments: list[float] = []
        for engine, moment in self._next.items():
            known = engine.core.next_event() if moment is None else moment
            self._next[engine] = known
            if known is not None:
                moments.append(known)
        return min(moments, default=None)

    async def _advance(self, until: float) -> None:
        """Advance to a time, from one engine event to the next."""
        while True:
            soonest = self._soonest()
            if soonest is None or soonest > until:
                break
            self._clock.move(max(soonest, self._clock.now()))
            for engine in self._due(soonest):
                engine.catch_up()
                self._next[engine] = None
            await self._quiet()
        self._clock.move(max(until, self._clock.now()))

    def _due(self, moment: float) -> Iterator[LabEngine]:
        for engine, due in list(self._next.items()):
            if due is not None and due <= moment:
                yield engine

    async def _quiet(self) -> None:
        """Wait until the client has received all generated tokens."""
        firsts = sum(engine.first_tokens for engine in self._replicas.engines)
        await self._until(lambda: self._firsts >= firsts, "a first token does not arrive")
        finished = sum(engine.finished for engine in self._replicas.engines)
        await self._until(lambda: self._done >= finished + self._refused, "an answer has no end")

    async def _until(self, is_so: Callable[[], bool], otherwise: str) -> None:
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                while not is_so():
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError as error:
            raise StuckError(f"{otherwise}, {_PATIENCE_SECONDS:g} s long") from error
