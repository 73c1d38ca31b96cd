"""The laboratory's replicas: simulated engines on a clock that stands still."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from simulator.engine.clock import StillClock
from simulator.engine.engine import Engine
from simulator.engine.request import Request
from simulator.engine.settings import Deployment
from simulator.replays.replica_spec import ReplicaSpec
from simulator.server.server import ApiServer

PAGE_PORT = 8001
"""Port of the page for pickers, on each replica's address."""
_TEXT = "text/plain; version=0.0.4; charset=utf-8"
_HELD_SECONDS = (
    0.1  # a page nobody refreshed is given after this: pickers must not think it is gone
)


@dataclass
class _Open:
    request: Request
    told: bool = False


class LabEngine(Engine):
    """An engine that reports its received requests and sent tokens."""

    def __init__(self, deployment: Deployment, clock: StillClock) -> None:
        super().__init__(deployment, clock)
        self.on_arrival: Callable[[], None] = _nothing
        self.first_tokens = 0
        """Requests whose first token was sent."""
        self.finished = 0
        """Requests that have ended."""
        self.adapters_told: tuple[str, str] | None = None
        """Running and waiting adapters; None before the first request for an adapter.

        vLLM's metric has no series before its first token, and the newest one counts for the
        picker, also when it lists no adapter.
        """
        self._open: list[_Open] = []

    def submit(self, prompt: Sequence[int], *arguments: Any, **fields: Any) -> Request:
        """Queue a request; see `Engine.submit`."""
        request = super().submit(prompt, *arguments, **fields)
        self._open.append(_Open(request))
        self.on_arrival()
        return request

    def catch_up(self) -> None:
        """Compute everything up to now, deliver the news and count them."""
        self._catch_up(self.clock.now())
        left: list[_Open] = []
        for entry in self._open:
            if entry.request.generated and not entry.told:
                entry.told = True
                self.first_tokens += 1
            if entry.request.finished is None:
                left.append(entry)
            else:
                self.finished += 1
        self._open = left


def _nothing() -> None:
    """Do nothing."""


def picker_page(engine: LabEngine) -> str:
    """Return the metrics that a picker reads, with vLLM's names and labels."""
    scheduler, deployment = engine.scheduler, engine.deployment
    lines = [
        "# TYPE vllm:num_requests_waiting gauge",
        f"vllm:num_requests_waiting {len(scheduler.waiting)}",
        "# TYPE vllm:num_requests_running gauge",
        f"vllm:num_requests_running {len(scheduler.running)}",
        "# TYPE vllm:kv_cache_usage_perc gauge",
        f"vllm:kv_cache_usage_perc {scheduler.cache.usage:.6f}",
        "# TYPE vllm:cache_config_info gauge",
        f'vllm:cache_config_info{{block_size="{deployment.block_size}",'
        f'num_gpu_blocks="{deployment.kv_blocks}"}} 1',
    ]
    used = (",".join(scheduler.adapters_running), ",".join(scheduler.adapters_waiting))
    if any(used) or engine.adapters_told is not None:
        engine.adapters_told = used
    if engine.adapters_told is not None:
        labels = {
            "max_lora": deployment.flags.max_loras or 1,
            "running_lora_adapters": engine.adapters_told[0],
            "waiting_lora_adapters": engine.adapters_told[1],
        }
        text = ",".join(f'{key}="{value}"' for key, value in labels.items())
        lines += [
            "# TYPE vllm:lora_requests_info gauge",
            f"vllm:lora_requests_info{{{text}}} {engine.clock.now() + 1:.3f}",
        ]
    return "\n".join(lines) + "\n"


@dataclass
class PickerPages:
    """Metrics pages that a picker reads once per tick of engine time.

    A picker requests pages repeatedly; each request is held until there is a new page. A request
    after a page shows that the picker has processed that page, so a tick ends when all pages are
    requested again.
    """

    engines: list[LabEngine]
    _tick: int = 0
    _given: dict[int, int] = field(default_factory=dict[int, int])
    _taken: dict[int, int] = field(default_factory=dict[int, int])
    _bodies: list[bytes] = field(default_factory=list[bytes])
    _new: asyncio.Event = field(default_factory=asyncio.Event)
    _all: asyncio.Event = field(default_factory=asyncio.Event)

    def handler(self, number: int) -> Callable[[web.Request], Any]:
        """Return the handler for a replica."""

        async def page(_http: web.Request) -> web.Response:
            self._taken[number] = self._given.get(number, 0)
            if self._is_taken():
                self._all.set()
            if self._given.get(number, 0) == self._tick:
                await self._held()
            self._given[number] = self._tick
            return web.Response(body=self._body(number), headers={"Content-Type": _TEXT})

        return page

    async def _held(self) -> None:
        try:
            async with asyncio.timeout(_HELD_SECONDS):
                await self._new.wait()
        except TimeoutError:
            pass

    def _body(self, number: int) -> bytes:
        if not self._bodies:
            return picker_page(self.engines[number]).encode()
        return self._bodies[number]

    def _is_taken(self) -> bool:
        return all(self._taken.get(n) == self._tick for n in range(len(self.engines)))

    async def refresh(self, seconds: float) -> None:
        """Send the engines' current state to the picker, and wait until it is processed.

        Raises:
            TimeoutError: the picker did not process it within the time limit.
        """
        self._bodies = [picker_page(engine).encode() for engine in self.engines]
        self._tick += 1
        self._all.clear()
        news, self._new = self._new, asyncio.Event()
        news.set()
        async with asyncio.timeout(seconds):
            await self._all.wait()


class Replicas:
    """All engines of a run with their servers; an async context manager.

    Args:
        specs: specifications of the replicas.
        names: names of the pods.
        addresses: addresses of the pods.
        served_as: name of the model.
    """

    def __init__(
        self, specs: Sequence[ReplicaSpec], names: Sequence[str], addresses: Sequence[str],
        served_as: str,
    ) -> None:  # fmt: skip
        self.clock = StillClock()
        self.engines: list[LabEngine] = []
        for spec, name, address in zip(specs, names, addresses, strict=True):
            engine = LabEngine(spec.deployment(name, address, served_as), self.clock)
            if spec.slowdown != 1.0:
                engine.slow_down(spec.slowdown)
            if engine.deployment.flags.lora_modules:
                # the platform requests each replica's first adapter once before the replica is
                # ready
                engine.adapters_told = ("", "")
            self.engines.append(engine)
        self.pages = PickerPages(self.engines)
        self._addresses = addresses
        self._servers: list[ApiServer] = []
        self._runners: list[web.AppRunner] = []

    async def __aenter__(self) -> "Replicas":
        """Listen.

        Raises:
            OSError: an address is in use.
        """
        for number, engine in enumerate(self.engines):
            server = ApiServer(engine)
            await server.start()
            self._servers.append(server)
            app = web.Application()
            app.add_routes([web.get("/metrics", self.pages.handler(number))])
            runner = web.AppRunner(app, access_log=None, handle_signals=False)
            await runner.setup()
            await web.TCPSite(runner, self._addresses[number], PAGE_PORT).start()
            self._runners.append(runner)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop listening."""
        for runner in self._runners:
            await runner.cleanup()
        for server in self._servers:
            await server.stop()

    def cache_tokens(self) -> tuple[int, int]:
        """Return the prompt tokens queried in prefix caches so far, and those found."""
        stats = [engine.scheduler.cache.stats for engine in self.engines]
        return sum(s.queries for s in stats), sum(s.hits for s in stats)
