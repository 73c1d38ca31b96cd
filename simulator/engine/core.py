"""The engine core: a discrete-event model of vLLM's step loop, without a clock or any I/O.

Callers provide the time. `submit`, `abort` and `advance` state the current time; everything since
the last call is then computed, each step at its exact time. A server that is late by a few
milliseconds, a server whose clock runs faster than real time, and a replay without a clock
therefore give the same timestamps for the same arrivals.

During pure decoding, only the length of the contexts changes between steps. Such steps are kept as
a `Run`: their times are computed one by one with the same cost function, and requests, cache and
metrics are updated on access.
"""

import heapq
import itertools

from planner.speed.roofline import CostModel, StepLoad
from simulator.engine.adapters import AdapterSlots
from simulator.engine.kv_cache import KvCache
from simulator.engine.kv_tiers import tiers_of
from simulator.engine.metrics import EngineMetrics
from simulator.engine.request import FinishReason, Request
from simulator.engine.run import Run
from simulator.engine.scheduler import Scheduler, Step
from simulator.engine.settings import Deployment

_LOOK_AHEAD_STEPS = 64
"""Maximum number of steps computed in advance; an arrival discards the rest."""


def cost_model(deployment: Deployment) -> CostModel:
    """Return the model of an engine's step times."""
    return CostModel(
        deployment.shape,
        deployment.surroundings.accelerator,
        deployment.chips,
        deployment.kv_bits,
        stages=deployment.flags.pipeline_parallel_size or 1,
        network=deployment.surroundings.host_network,
        experts=deployment.experts,
        speculation=deployment.speculation,
        link=deployment.surroundings.link,
    )


class EngineCore:
    """An engine that turns requests into timestamps and metrics.

    Args:
        deployment: model, flags and hardware.
        skip_ahead: whether steps without changes are computed together, with equal results.
        metrics: metrics to update; vLLM's by default.
    """

    def __init__(
        self,
        deployment: Deployment,
        *,
        skip_ahead: bool = True,
        metrics: EngineMetrics | None = None,
    ) -> None:
        flags = deployment.flags
        self.deployment = deployment
        self.cost = cost_model(deployment)
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
            tiers=tiers_of(deployment),
        )
        if self.scheduler.tiers is not None:
            self.scheduler.cache.on_publish = self.scheduler.tiers.store
        self._promotions: list[tuple[float, int, Request]] = []
        self._numbers = itertools.count()
        self.adapters = AdapterSlots(deployment)
        self._max_adapters = self.adapters.slots if flags.enable_lora else None
        self.metrics = metrics or EngineMetrics(deployment)
        self.metrics.before_render = self._book_state
        self._book_state()
        self.steps = 0
        """Steps computed since the start."""
        self._asynchronous = flags.async_scheduling is not False
        self._slowdown = 1.0
        self._skip_ahead = skip_ahead
        self._step: Step | None = None
        self._load = StepLoad(0, 0, 0)
        self._run: Run | None = None
        self._ends = 0.0
        self._idle_since = 0.0
        self._news: dict[Request, None] = {}
        self._to_load: list[Request] = []

    @property
    def unfinished(self) -> int:
        """Requests waiting or running."""
        return len(self.scheduler.waiting) + len(self.scheduler.running)

    @property
    def slowdown(self) -> float:
        """Slowdown factor of the steps; 1 on healthy hardware."""
        return self._slowdown

    @property
    def _pace(self) -> float:
        """Factor of a step's modeled time."""
        return self._slowdown * self.deployment.step_factor

    def slow_down(self, factor: float, now: float) -> None:
        """Slow down steps by `factor`, starting with the next one.

        Raises:
            ValueError: the factor is not positive.
        """
        if factor <= 0:
            raise ValueError(f"factor must be above 0, got {factor}")
        self.advance(now)
        self._cut()
        self._slowdown = factor

    def submit(self, request: Request, now: float) -> None:
        """Queue a request."""
        self.advance(now)
        self._cut()
        if self._step is None:
            self._idle_since = max(now, self._idle_since)
        elif self._asynchronous:
            request.first_step = self.scheduler.step + 1
        self.scheduler.add(request)

    def abort(self, request: Request, now: float) -> None:
        """Abort a request; do nothing if it has ended."""
        self.advance(now)
        if request.finished is not None:
            return
        self._cut()
        self.scheduler.remove(request, FinishReason.ABORT)
        self.metrics.aborted(request, now)
        self._news[request] = None
        if self._step is None:
            self._idle_since = max(now, self._idle_since)

    def loads(self) -> list[Request]:
        """Return new requests whose KV must be read from another engine."""
        found, self._to_load = self._to_load, []
        return found

    def loaded(self, request: Request, now: float) -> None:
        """Continue a request whose KV has been read; do nothing if it has ended."""
        self._interrupt(now)
        if request.finished is None:
            self.scheduler.loaded(request)

    def not_loaded(self, request: Request, now: float, *, recompute: bool) -> None:
        """Compute a prompt whose KV could not be read, or fail the request."""
        self._interrupt(now)
        if request.finished is not None:
            return
        if recompute:
            self.scheduler.not_loaded(request)
            return
        self.scheduler.remove(request, FinishReason.ERROR)
        self.metrics.finished(request, now)
        self._news[request] = None

    def release(self, request: Request, now: float) -> None:
        """Free the blocks that a finished request kept for another engine."""
        self._interrupt(now)
        self.scheduler.release(request)

    def _interrupt(self, now: float) -> None:
        """Schedule again at the end of the running step."""
        self.advance(now)
        self._cut()
        if self._step is None:
            self._idle_since = max(now, self._idle_since)

    def advance(self, now: float) -> None:
        """Compute everything up to a time."""
        while True:
            due = self._promotions[0][0] if self._promotions else now
            if self._advance_by_one(min(now, due)):
                continue
            # a step that has just begun can have started a read that ends before it
            due = self._promotions[0][0] if self._promotions else None
            if due is None or due > now:
                return
            self._promote()

    def _advance_by_one(self, now: float) -> bool:
        """Compute a step or a run up to a time; return whether there can be another one."""
        if self._step is None and self._run is None and not self._begin():
            return False
        if self._run is not None:
            return self._advance_run(self._run, now)
        if self._ends > now:
            return False
        self._complete()
        return True

    def _promote(self) -> None:
        """End the next read from lower tiers, and schedule again at the end of the running step."""
        moment, _, request = heapq.heappop(self._promotions)
        self._cut()
        if self._step is None:
            self._idle_since = max(moment, self._idle_since)
        if request.finished is None:
            self.scheduler.promoted(request)

    def news(self) -> list[Request]:
        """Return the requests with news since the last call: see `Request.tell_at`."""
        told = list(self._news)
        self._news.clear()
        return told

    def next_event(self) -> float | None:
        """Return the time of the next possible news, or None if the engine is idle."""
        step = self._next_step_end()
        due = self._promotions[0][0] if self._promotions else None
        return min((moment for moment in (step, due) if moment is not None), default=None)

    def _next_step_end(self) -> float | None:
        if self._run is not None:
            run = self._run
            due = min(request.tell_at - request.generated for request in run.requests)
            last = min(run.done + max(1, due), run.steps)
            self._extend(run, last)
            return run.ends[last - 1]
        if self._step is None and not self._begin():
            return None
        return self._ends if self._run is None else self._next_step_end()

    def _begin(self) -> bool:
        """Start the next step or run; return whether there is one."""
        if not self.unfinished:
            return False
        begun = self._idle_since
        if self._skip_ahead:
            self._run = self._steady(begun)
            if self._run is not None:
                self.scheduler.step += 1
                self._reserve(self._run, 0)
                return True
        scheduler = self.scheduler
        late = scheduler.step
        if not scheduler.running and all(
            each.loading or each.first_step > late for each in scheduler.waiting
        ):  # nothing was there to schedule ahead
            for request in scheduler.waiting:
                request.first_step = 0
        step = scheduler.schedule()
        scheduler.step += 1
        self._to_load += step.loads
        for request in step.tier_loads:
            self._start_promotion(request, begun)
        if not step.work and not step.preempted:
            return False
        for request in step.admitted:
            if request.first_scheduled is None:
                request.first_scheduled = begun
        self._load = step.load(self.scheduler.cache.held_tokens)
        names = sorted({r.adapter for r, _ in step.work if r.adapter})
        seconds = self.cost.step_seconds(self._load)
        if names:
            seconds += self.adapters.load(names, self.scheduler.adapters_running)
        self._step = step
        self._ends = begun + seconds * self._pace
        return True

    def _start_promotion(self, request: Request, now: float) -> None:
        tiers = self.scheduler.tiers
        if tiers is not None and request.load is not None:
            if request.first_scheduled is None:
                request.first_scheduled = now
            ends = tiers.load(request.load, now)
            heapq.heappush(self._promotions, (ends, next(self._numbers), request))

    def _complete(self) -> None:
        step, now = self._step, self._ends
        if step is None:
            return
        self._step = None
        self._idle_since = now
        self.steps += 1
        answered = self.scheduler.complete(step)
        self.metrics.answered(answered, now)
        for request in answered:
            if request.finished is not None:
                self.metrics.finished(request, now)
            self._tell(request)
        self.metrics.step(self._load, self.cost, preempted=len(step.preempted))

    def _tell(self, request: Request) -> None:
        if request.finished is not None or request.generated >= request.tell_at:
            self._news[request] = None

    def _steady(self, now: float) -> Run | None:
        """Return the next decode steps, if nothing can change in them."""
        scheduler = self.scheduler
        running = scheduler.running
        full = len(running) >= scheduler.max_sequences
        waits = any(not request.loading for request in scheduler.waiting)
        if not running or (waits and not full) or len(running) > scheduler.max_tokens:
            return None
        size = scheduler.cache.block_size
        steps = scheduler.cache.free_blocks // len(running) * size
        context = 0
        phases: list[list[Request]] = [[] for _ in range(size)]
        first: dict[Request, int] = {}
        for request in running:
            # one token per step so far, so all latencies between tokens equal the step times
            if request.pending != 1 or not request.generated or request.last_token != now:
                return None
            steps = min(steps, request.remaining)
            context += request.computed + 1
            phases[request.computed % size].append(request)
            first[request] = request.computed
        if steps < 2:
            return None
        names = scheduler.adapters_running
        if names:
            if not self.adapters.are_loaded(names):
                return None
            self.adapters.load(names, names)
        return Run(
            list(running),
            now,
            context,
            len(names),
            min(steps, _LOOK_AHEAD_STEPS),
            phases,
            first,
            scheduler.cache.held_tokens,
        )

    def _extend(self, run: Run, steps: int) -> None:
        """Compute the times of a run's first steps."""
        moment = run.ends[-1] if run.ends else run.begun
        while len(run.ends) < steps:
            load = run.next_load()
            moment += self.cost.step_seconds(load) * self._pace
            run.loads.append(load)
            run.ends.append(moment)

    def _reserve(self, run: Run, step: int) -> None:
        """Allocate the blocks that a step of a run starts."""
        for request in run.phases[-step % len(run.phases)]:
            request.blocks += self.scheduler.cache.allocate(1) or []

    def _advance_run(self, run: Run, now: float) -> bool:
        """Record the steps of a run up to a time; return whether the run is complete."""
        before = run.done
        size = len(run.phases)
        begun = run.ends[run.done - 1] if run.done else run.begun
        while run.done < run.steps:
            self._extend(run, run.done + 1)
            end = run.ends[run.done]
            if end > now:
                break
            for request in run.phases[(size - 1 - run.done) % size]:
                self.scheduler.publish(request, run.first[request] + run.done + 1)
            self.metrics.step(run.loads[run.done], self.cost)
            self.metrics.decoded(end - begun, len(run.requests))
            begun = end
            run.done += 1
            if run.done < run.steps:
                self._reserve(run, run.done)
        if run.done > before:
            self._book(run, run.done - before)
        return self._run is None

    def _book(self, run: Run, steps: int) -> None:
        """Add the tokens of a run to its requests."""
        self.steps += steps
        moment = run.ends[run.done - 1]
        for request in run.requests:
            request.generated += steps
            request.computed += steps
            request.last_token = moment
            if request.generated >= request.tell_at:
                self._news[request] = None
        if run.done == run.steps:
            self._run = None
            self._idle_since = moment
            for request in self.scheduler.finish_complete(run.requests):
                self.metrics.finished(request, moment)
                self._news[request] = None

    def _cut(self) -> None:
        """End a run after the running step, to schedule again."""
        run = self._run
        if run is None:
            return
        self._extend(run, run.done + 1)
        self._run = None
        self._load = run.loads[run.done]
        self._ends = run.ends[run.done]
        work = [(request, 1) for request in run.requests]
        self._step = Step(work, decode_tokens=len(work))

    def _book_state(self) -> None:
        self.metrics.state(self.scheduler, self._max_adapters)
