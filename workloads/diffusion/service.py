"""The queues for the chips: accepts requests, assigns images, cancels and drains."""

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial

from workloads.common import logs

from . import adapters
from .batching import Picture, adapters_of
from .config import Settings
from .metrics import Metrics
from .pools import Pool, pools_of
from .protocol import ApiError, ImageRequest, seeds
from .workers import Lost, Refused, State, Worker

Shown = Callable[[int, int | None, str], None]
"""Takes the number of an image in its request, from 0, the index of its preview or None for the
finished image, and the file in base64."""
_LOOK_SECONDS = 2.0
"""Interval at which the server checks for removed live adapters."""


class Service:
    """One server's queues and workers.

    Args:
        settings: Settings of the server.
        metrics: Metrics to update.
    """

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self._settings = settings
        self._metrics = metrics
        self._workers = [
            Worker(settings, number, self._changed, self._timed)
            for number in range(settings.workers)
        ]
        self._pool_of = pools_of(settings, self._workers)
        self._pools = list(dict.fromkeys(self._pool_of.values()))
        self._idle = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._live: set[str] = set()
        self.is_draining = False
        metrics.queue_limit.set(settings.queue_limit)

    def start(self) -> None:
        """Start the workers."""
        for worker in self._workers:
            worker.start()
        if self._settings.live_adapters:
            task = asyncio.create_task(self._look())
            self._tasks.add(task)
        self._changed()

    def health(self) -> tuple[str, dict[str, str]]:
        """Return `starting`, `ready`, `draining` or `broken`, and the state of each worker."""
        stages = {str(worker.number): worker.stage for worker in self._workers}
        states = [worker.state for worker in self._workers]
        if all(state is State.BROKEN for state in states):
            return "broken", stages
        if self.is_draining:
            return "draining", stages
        is_ready = State.READY in states and all(pool.has_started for pool in self._pools)
        return ("ready" if is_ready else "starting"), stages

    async def draw(
        self, request: ImageRequest, trace: str, shown: Shown | None = None
    ) -> list[str]:
        """Return the image files of a request, in base64.

        Args:
            request: The request.
            trace: Identifier for the log.
            shown: Called with each preview and each finished image as soon as there is one.

        Raises:
            ApiError: The request was rejected, timed out or failed.
        """
        self._admit(request)
        used = (each.adapter for each in request.adapters)
        self._live.update(adapter.name for adapter in used if adapter.version)
        pictures = [self._picture(request, seed, trace) for seed in seeds(request)]
        if shown is not None:
            for number, picture in enumerate(pictures):
                _report(picture, number, shown)
        self._pool_of[request.base].queue.add(pictures)
        self._changed()
        try:
            async with asyncio.timeout(self._settings.timeout_seconds):
                images = await asyncio.gather(*(picture.done for picture in pictures))
        except TimeoutError as error:
            self._give_up(pictures, "timed_out")
            message = f"no image within {self._settings.timeout_seconds:g} s"
            raise ApiError(504, message, code="timeout") from error
        except asyncio.CancelledError:
            self._give_up(pictures, "cancelled")
            raise
        except Refused as error:
            self._give_up(pictures, "refused")
            raise ApiError(400, str(error), code="cannot_be_drawn") from error
        except Lost as error:
            self._give_up(pictures, "failed")
            logs.say(logging.ERROR, str(error), trace_id=trace)
            raise ApiError(500, "the image could not be generated", code="worker_lost") from error
        self._metrics.images.labels(request.base, "drawn").inc(len(images))
        return images

    async def drain(self) -> None:
        """Reject new requests, finish open ones within the time limit, and end the workers."""
        self.is_draining = True
        logs.say(logging.INFO, "draining", waiting=self._waiting)
        self._changed()
        try:
            async with asyncio.timeout(self._settings.drain_seconds):
                await self._idle.wait()
        except TimeoutError:
            logs.say(logging.ERROR, "images remain after the drain time")
        for pool in self._pools:
            for picture in pool.queue.drop_all():
                picture.done.cancel()
        await asyncio.gather(*(worker.stop() for worker in self._workers))

    def _admit(self, request: ImageRequest) -> None:
        state, _ = self.health()
        if state != "ready":
            raise ApiError(503, f"the server is {state}", code=state, retry_after=5)
        pool = self._pool_of[request.base]
        if pool.is_broken:
            message = f"no chip can load the model {request.base!r}"
            raise ApiError(503, message, code="broken", retry_after=60)
        waiting = len(pool.queue)
        if waiting + request.count > pool.limit:
            raise ApiError(
                429,
                f"{waiting} images wait; the queue holds {pool.limit}",
                code="queue_full",
                retry_after=pool.retry_seconds,
            )

    @property
    def _waiting(self) -> int:
        return sum(len(pool.queue) for pool in self._pools)

    def _picture(self, request: ImageRequest, seed: int, trace: str) -> Picture:
        return Picture(
            adapters=request.adapters,
            arrived=time.monotonic(),
            done=asyncio.get_running_loop().create_future(),
            edit=request.edit,
            format=request.format,
            frames=request.frames,
            guidance=request.guidance,
            height=request.height,
            model=request.base,
            negative=request.negative,
            previews=request.previews,
            prompt=request.prompt,
            seed=seed,
            steps=request.steps,
            trace=trace,
            width=request.width,
        )

    def _give_up(self, pictures: list[Picture], outcome: str) -> None:
        for picture in pictures:
            became = "drawn" if _is_sent(picture) else outcome
            self._metrics.images.labels(picture.model, became).inc()
            picture.is_cancelled = True
            picture.done.cancel()
            self._pool_of[picture.model].queue.remove(picture)
        for worker in self._workers:
            if worker.pictures and all(picture.is_cancelled for picture in worker.pictures):
                worker.give_up()
        self._changed()

    def _changed(self) -> None:
        """Assign queued images to idle workers, and update the metrics."""
        for pool in self._pools:
            idle = pool.idle
            while idle and len(pool.queue):
                pictures = pool.queue.take(len(idle), self._settings.max_batch)
                self._begin(pool, idle.pop(0), pictures)
            if pool.is_broken:
                for picture in pool.queue.drop_all():
                    picture.done.set_exception(Lost(f"no chip can load {picture.model}"))
        self._count()

    def _begin(self, pool: Pool, worker: Worker, pictures: list[Picture]) -> None:
        now = time.monotonic()
        for picture in pictures:
            self._metrics.queue_seconds.observe(now - picture.arrived)
        self._metrics.batch_images.observe(len(pictures))
        worker.draw(pictures)
        task = asyncio.create_task(self._learn(pool, pictures, now))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _learn(self, pool: Pool, pictures: list[Picture], begun: float) -> None:
        """Update the duration of an image from a batch."""
        results = await asyncio.gather(*(p.done for p in pictures), return_exceptions=True)
        if all(isinstance(result, str) for result in results):
            pool.learn((time.monotonic() - begun) / len(pictures))

    async def _look(self) -> None:
        """Unload removed live adapters from the chips."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            for name in sorted(self._live):
                self._live.discard(name)  # a request adds it again, even while this looks
                if await asyncio.to_thread(adapters.find, self._settings, name) is not None:
                    self._live.add(name)
                    continue
                for worker in self._workers:
                    worker.forget(name)
                if name in self._wanted():  # a chip may read it once more
                    self._live.add(name)
                else:
                    logs.say(logging.INFO, f"adapter {name} is gone", adapter=name)

    def _wanted(self) -> set[str]:
        """Return the names of the adapters of images that wait or are being generated."""
        drawn = (adapters_of(worker.pictures) for worker in self._workers)
        waiting = (pool.queue.adapters() for pool in self._pools)
        return set[str]().union(*waiting, *drawn)

    def _timed(self, stage: str, seconds: float) -> None:
        self._metrics.stage_seconds.labels(stage).observe(seconds)

    def _count(self) -> None:
        running = sum(pool.running for pool in self._pools)
        self._metrics.waiting.set(self._waiting)
        self._metrics.running.set(running)
        for model, pool in self._pool_of.items():
            self._metrics.model_waiting.labels(model).set(pool.queue.count(model))
            for state in State:
                count = sum(worker.state is state for worker in pool.workers)
                self._metrics.model_workers.labels(model, state.value).set(count)
        for state in State:
            count = sum(worker.state is state for worker in self._workers)
            self._metrics.workers.labels(state.value).set(count)
        if running or self._waiting:
            self._idle.clear()
        else:
            self._idle.set()


def _is_sent(picture: Picture) -> bool:
    """Return whether a client has an image already, although others of its request failed."""
    done = picture.done
    is_finished = done.done() and not done.cancelled() and done.exception() is None
    return picture.show is not None and is_finished


def _report(picture: Picture, number: int, shown: Shown) -> None:
    """Let an image report its previews and its file."""

    def finished(done: asyncio.Future[str]) -> None:
        if not done.cancelled() and done.exception() is None:
            shown(number, None, done.result())

    picture.show = partial(shown, number)
    picture.done.add_done_callback(finished)
