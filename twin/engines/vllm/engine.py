"""The engine core: steps one after another on a clock, tokens handed to whoever waits for them."""

import asyncio
import itertools
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Sequence
from typing import Protocol

from twin.engines.vllm.cost import CostModel
from twin.engines.vllm.kv_cache import KvCache
from twin.engines.vllm.metrics import EngineMetrics
from twin.engines.vllm.request import FinishReason, Request
from twin.engines.vllm.scheduler import Scheduler, Step
from twin.engines.vllm.settings import Deployment

_ADAPTER_GB = 0.09
"""A rank-16 adapter of an 8B model; others in proportion to rank and model."""
_HOST_TO_DEVICE_GBPS = 12.0
_VOLUME_GBPS = 0.5
_TIMER_SLACK_SECONDS = 0.02


class Clock(Protocol):
    """Where an engine takes its time from: the wall, or a replay faster than it."""

    def now(self) -> float:
        """Return the time, in seconds."""
        ...

    async def sleep_until(self, moment: float) -> None:
        """Wait until a moment; not at all where it is past."""
        ...


class WallClock:
    """Real time."""

    def now(self) -> float:
        """Return the time, in seconds."""
        return time.monotonic()

    async def sleep_until(self, moment: float) -> None:
        """Wait until a moment; not at all where it is past."""
        await asyncio.sleep(max(0.0, moment - time.monotonic()))


class EngineBusyError(Exception):
    """A queue limit turned the request away; the message is vLLM's."""


class AdapterSlots:
    """LoRA adapters on the accelerator and in host memory, the least recently used leave first."""

    def __init__(self, deployment: Deployment) -> None:
        flags = deployment.flags
        self.slots: int = flags.max_loras or 1
        self._host_slots: int = max(self.slots, flags.max_cpu_loras or self.slots)
        scale = deployment.shape.parameters_billion / 8 * (flags.max_lora_rank or 16) / 16
        self._gigabytes = _ADAPTER_GB * scale
        self._device: OrderedDict[str, None] = OrderedDict()
        self._host: OrderedDict[str, None] = OrderedDict()

    def load(self, names: Sequence[str], busy: Sequence[str] = ()) -> float:
        """Bring adapters onto the accelerator and return the seconds that takes."""
        seconds = 0.0
        for name in names:
            if name not in self._device:
                seconds += self._gigabytes / _HOST_TO_DEVICE_GBPS
                if name not in self._host:
                    seconds += self._gigabytes / _VOLUME_GBPS
            self._use(self._host, name, self._host_slots, busy)
            self._use(self._device, name, self.slots, busy)
        return seconds

    @staticmethod
    def _use(kept: OrderedDict[str, None], name: str, most: int, busy: Sequence[str]) -> None:
        kept[name] = None
        kept.move_to_end(name)
        while len(kept) > most:
            oldest = next((item for item in kept if item not in busy and item != name), None)
            if oldest is None:
                return
            del kept[oldest]

    def forget(self, name: str) -> None:
        """Drop an adapter that was unloaded."""
        self._device.pop(name, None)
        self._host.pop(name, None)


class Engine:
    """One engine: a scheduler driven by step times.

    Args:
        deployment: what it serves, on what.
        clock: its time.
    """

    def __init__(self, deployment: Deployment, clock: Clock | None = None) -> None:
        self.deployment = deployment
        self.clock: Clock = clock or WallClock()
        flags = deployment.flags
        self.cost = CostModel(
            deployment.shape,
            deployment.surroundings.accelerator,
            deployment.chips,
            deployment.kv_bits,
        )
        self.scheduler = Scheduler(
            KvCache(
                deployment.kv_blocks,
                deployment.block_size,
                prefix_caching=flags.enable_prefix_caching is not False,
            ),
            deployment.max_batched_tokens,
            deployment.max_sequences,
            max_adapters=flags.max_loras or 1,
            by_priority=flags.scheduling_policy == "priority",
            chunked=flags.enable_chunked_prefill is not False,
        )
        self.metrics = EngineMetrics(deployment)
        self.adapters = AdapterSlots(deployment)
        self._max_adapters = self.adapters.slots if flags.enable_lora else None
        self._work = asyncio.Event()
        self._outputs: dict[Request, asyncio.Queue[int]] = {}
        self._ids = itertools.count()
        self._deadline = 0.0
        self.metrics.state(self.scheduler, self._max_adapters)

    @property
    def unfinished(self) -> int:
        """Requests waiting or running."""
        return len(self.scheduler.waiting) + len(self.scheduler.running)

    def submit(
        self,
        prompt: Sequence[int],
        output: Sequence[int],
        max_tokens: int,
        *,
        adapter: str | None = None,
        priority: int = 0,
        pooling: bool = False,
    ) -> Request:
        """Queue a request.

        Raises:
            EngineBusyError: `--max-num-queued-reqs` or `--max-num-queued-tokens` is reached.
        """
        self._check_queue(len(prompt))
        request = Request(
            id=f"{next(self._ids)}",
            prompt=prompt,
            max_tokens=max_tokens,
            arrival=self.clock.now(),
            adapter=adapter,
            priority=priority,
            pooling=pooling,
            output=output,
            block_salt=hash(adapter) if adapter else 0,
        )
        self._outputs[request] = asyncio.Queue()
        self.scheduler.add(request)
        self.metrics.state(self.scheduler, self._max_adapters)
        self._work.set()
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
        """Yield the number of tokens generated so far, each time it grows, until the end.

        A caller that stops early aborts the request.
        """
        queue = self._outputs[request]
        try:
            while True:
                generated = await queue.get()
                yield generated
                if request.finished is not None and queue.empty():
                    return
        finally:
            self._outputs.pop(request, None)
            if request.finished is None:
                self._abort(request)

    def _abort(self, request: Request) -> None:
        self.scheduler.remove(request, FinishReason.ABORT)
        self.metrics.finished(request, self.clock.now())
        self.metrics.state(self.scheduler, self._max_adapters)

    def abort_all(self) -> None:
        """End every request, as vLLM does on SIGTERM without `--shutdown-timeout`."""
        for request in [*self.scheduler.running, *self.scheduler.waiting]:
            self._abort(request)
            if request in self._outputs:
                self._outputs[request].put_nowait(request.generated)

    async def run(self) -> None:
        """Compute steps for ever."""
        while True:
            step = self.scheduler.schedule()
            if not step.work and not step.preempted:
                self._work.clear()
                await self._work.wait()
                continue
            await self._execute(step)

    async def _execute(self, step: Step) -> None:
        started = self.clock.now()
        for request in step.admitted:
            if request.first_scheduled is None:
                request.first_scheduled = started
        self.metrics.state(self.scheduler, self._max_adapters)
        load = step.load()
        names = sorted({r.adapter for r, _ in step.work if r.adapter})
        seconds = self.cost.step_seconds(load)
        seconds += self.adapters.load(names, self.scheduler.adapters_running)
        # a timer fires a little late: the next step starts from where this one should have ended
        late = started - self._deadline
        self._deadline = (self._deadline if late < _TIMER_SLACK_SECONDS else started) + seconds
        await self.clock.sleep_until(self._deadline)
        now = self.clock.now()
        for request in self.scheduler.complete(step):
            self.metrics.tokens(request, now)
            if request.finished is not None:
                self.metrics.finished(request, now)
            if request in self._outputs:
                self._outputs[request].put_nowait(request.generated)
        self.metrics.step(step, load, self.cost, self.scheduler.cache)
        self.metrics.state(self.scheduler, self._max_adapters)
