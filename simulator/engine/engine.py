"""The engine of a server: the core on a clock, with tokens for waiting requests."""

import asyncio
import itertools
import sys
from collections.abc import AsyncGenerator, Sequence

from simulator.engine.adapters import AdapterSlots
from simulator.engine.clock import Clock, WallClock
from simulator.engine.core import EngineCore
from simulator.engine.kv_cache import salt_of
from simulator.engine.kv_transfer import KvTransfer, Peers, TransferError, spawn
from simulator.engine.logs import LOG, trace_id
from simulator.engine.metrics import EngineMetrics
from simulator.engine.request import FinishReason, RemoteKv, Request
from simulator.engine.settings import Deployment

__all__ = ["AdapterSlots", "Clock", "Engine", "EngineBusyError", "WallClock"]
_AT_THE_END = sys.maxsize


class EngineBusyError(Exception):
    """A queue limit rejected the request; the message is vLLM's."""


class Engine:
    """An engine: a core on a clock.

    Args:
        deployment: model, flags and hardware.
        clock: clock of the engine.
        peers: connections to the engines that prefill for it.
        metrics: metrics to update; vLLM's by default.
    """

    def __init__(
        self,
        deployment: Deployment,
        clock: Clock | None = None,
        peers: Peers | None = None,
        metrics: EngineMetrics | None = None,
    ) -> None:
        self.deployment = deployment
        self.clock: Clock = clock or WallClock()
        self.dead = False
        """Whether a host of the engine is lost, so that open requests fail."""
        self.core = EngineCore(deployment, metrics=metrics)
        self.cost = self.core.cost
        self.scheduler = self.core.scheduler
        self.metrics = self.core.metrics
        self.adapters = self.core.adapters
        self.kv = KvTransfer(deployment, peers)
        self._loads: set[asyncio.Task[None]] = set()
        self._interval: int = deployment.flags.stream_interval or 1
        self._changed = asyncio.Event()
        self._waiting: dict[Request, asyncio.Event] = {}
        self._ids = itertools.count()

    @property
    def unfinished(self) -> int:
        """Requests waiting or running."""
        return self.core.unfinished

    def submit(
        self,
        prompt: Sequence[int],
        output: Sequence[int],
        max_tokens: int,
        *,
        adapter: str | None = None,
        salt: str = "",
        priority: int = 0,
        pooling: bool = False,
        stream: bool = True,
        remote: RemoteKv | None = None,
        keeps_kv: bool = False,
    ) -> Request:
        """Queue a request.

        Args:
            prompt: tokens of the prompt.
            output: tokens of the response.
            max_tokens: maximum number of tokens in the response.
            adapter: LoRA adapter.
            salt: value that requests must have in common to share a prefix (`cache_salt`).
            priority: priority under `--scheduling-policy priority`; lower values run first.
            pooling: whether the response is a vector.
            remote: location of the prompt's KV, if another engine computed it.
            keeps_kv: whether to keep its blocks for another engine to read.
            stream: whether `results` yields every `--stream-interval` tokens, or only at the end.

        Raises:
            EngineBusyError: `--max-num-queued-reqs` or `--max-num-queued-tokens` is reached.
        """
        now = self.clock.now()
        self._catch_up(now)
        self._check_queue(len(prompt))
        request = Request(
            id=f"{next(self._ids)}",
            prompt=prompt,
            max_tokens=max_tokens,
            arrival=now,
            adapter=adapter,
            priority=priority,
            pooling=pooling,
            output=output,
            block_salt=salt_of(adapter, salt),
            streamed=stream,
            tell_at=1 if stream else _AT_THE_END,
            remote=remote,
            keeps_kv=keeps_kv,
            trace=trace_id(),
        )
        self._waiting[request] = asyncio.Event()
        self.core.submit(request, now)
        self._changed.set()
        return request

    def _check_queue(self, tokens: int) -> None:
        flags = self.deployment.flags
        if flags.max_num_queued_reqs is not None and self.unfinished >= flags.max_num_queued_reqs:
            self.metrics.reject("max_num_queued_reqs")
            raise EngineBusyError(
                "The engine is currently busy and cannot accept new requests. "
                "Please try again later or on a different instance."
            )
        if flags.max_num_queued_tokens is not None:
            queued = sum(len(r.prompt) for r in self.scheduler.waiting)
            queued += sum(len(r.prompt) for r in self.scheduler.running if not r.generated)
            if queued + tokens > flags.max_num_queued_tokens:
                self.metrics.reject("max_num_queued_tokens")
                raise EngineBusyError(
                    "The engine has reached its prefill token backlog limit. "
                    "Please try again later or on a different instance."
                )

    async def results(self, request: Request) -> AsyncGenerator[int]:
        """Yield the number of generated tokens at each change, until the end.

        A reader that is slower than the engine gets several tokens at once. Stopping early aborts
        the request.
        """
        news = self._waiting[request]
        try:
            while True:
                await news.wait()
                news.clear()
                over = request.finished is not None
                yield request.generated
                if over:
                    return
        finally:
            self.abort(request)

    def abort(self, request: Request) -> None:
        """Abort a request whose results nobody reads; do nothing if it has ended."""
        self._waiting.pop(request, None)
        self.core.abort(request, self.clock.now())
        self._changed.set()

    def abort_all(self) -> None:
        """Abort every request, as vLLM does on SIGTERM without `--shutdown-timeout`."""
        now = self.clock.now()
        for request in [*self.scheduler.running, *self.scheduler.waiting]:
            self.core.abort(request, now)
        self._catch_up(now)
        self._changed.set()

    def die(self) -> None:
        """Fail every request, as vLLM does when a process of its group is lost."""
        self.dead = True
        self.abort_all()

    def slow_down(self, factor: float) -> None:
        """Slow down steps by `factor`, starting with the next one.

        Raises:
            ValueError: the factor is not positive.
        """
        self.core.slow_down(factor, self.clock.now())
        self._changed.set()

    def page(self) -> str:
        """Return the current metrics in the text format."""
        self._catch_up(self.clock.now())
        return self.metrics.render()

    async def run(self) -> None:
        """Compute steps forever."""
        while True:
            self._changed.clear()
            self._catch_up(self.clock.now())
            moment = self.core.next_event()
            if loads := self.core.loads():
                self._read(loads)
            if moment is None:
                await self._changed.wait()
            else:
                await self.clock.wait(moment, self._changed)

    def _catch_up(self, now: float) -> None:
        """Compute everything up to now and wake the affected waiters."""
        self.core.advance(now)
        self._read(self.core.loads())
        for request in self.core.news():
            if request.keeps_kv and request.finished is FinishReason.LENGTH:
                self._keep(request, now)
            news = self._waiting.get(request)
            if news is None:
                continue
            if request.tell_at != _AT_THE_END:
                request.tell_at = request.generated + self._interval
            news.set()

    def _read(self, requests: list[Request]) -> None:
        for request in requests:
            spawn(self._loads, self._load(request))

    async def _load(self, request: Request) -> None:
        """Read a prompt's KV from the engine that computed it, in parallel with the steps."""
        remote, started = request.remote, self.clock.now()
        if remote is None:
            return
        size = self.kv.bytes_of(len(request.prompt) - request.computed)
        try:
            chips = await self.kv.peers.call(remote, "read")
            await self.clock.sleep_until(self.kv.arrival(size, self.clock.now(), chips))
            await self.kv.peers.call(remote, "done")
        except TransferError as error:
            about = {"request_id": request.id, "trace_id": request.trace}
            LOG.warning("KV transfer failed: %s", error, extra={"fields": about})
            self.metrics.kv_failed()
            self.core.not_loaded(request, self.clock.now(), recompute=self.kv.recomputes)
        else:
            self.metrics.kv_read(self.clock.now() - started, size)
            self.core.loaded(request, self.clock.now())
        self._changed.set()

    def release(self, request: Request) -> None:
        """Free blocks kept for another engine after it has read them."""
        self.kv.let_go(request)
        self.core.release(request, self.clock.now())
        self._changed.set()

    def _keep(self, request: Request, now: float) -> None:
        lost = self.kv.keep(request, now)
        for forgotten in lost:
            self.core.release(forgotten, now)
        self.metrics.kv_expired(len(lost))
