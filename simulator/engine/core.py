"""The engine core: a discrete-event model of vLLM's step loop, without a clock or any I/O.

Its time is what callers say it is. `submit`, `abort` and `advance` state the present moment;
everything that happened since the last one is computed then, each step at its own exact time. So a
server that is late by a few milliseconds, one whose time runs faster than the wall and a replay
with no wall at all give the same timestamps for the same arrivals.

While nothing but decoding goes on, nothing changes from one step to the next but the length of the
contexts. Such steps are kept as a `_Run`: their times are computed one by one with the same cost
function, and requests, cache and metrics are brought up to date when somebody looks.
"""

from dataclasses import dataclass, field

from planner.speed.roofline import CostModel, StepLoad
from simulator.engine.adapters import AdapterSlots
from simulator.engine.kv_cache import KvCache
from simulator.engine.metrics import EngineMetrics
from simulator.engine.request import FinishReason, Request
from simulator.engine.scheduler import Scheduler, Step
from simulator.engine.settings import Deployment

_LOOK_AHEAD_STEPS = 64
"""Steps whose times are computed at most before anybody needs them: an arrival wastes the rest."""


@dataclass
class _Run:
    """Decode steps with one composition.

    Args:
        requests: of the batch, in the order of the scheduler.
        begun: when the first step began.
        context: KV tokens that the first step reads.
        steps: how many there are at most: then a request finishes, or blocks may run short.
    """

    requests: list[Request]
    begun: float
    context: int
    adapters: int
    steps: int
    phases: list[list[Request]]
    """Requests by how many tokens of their last block are computed when the run begins."""
    first: dict[Request, int]
    """Tokens computed of each request when the run began."""
    held_tokens: int
    """KV-cache tokens held before the first step."""
    ends: list[float] = field(default_factory=list[float])
    loads: list[StepLoad] = field(default_factory=list[StepLoad])
    done: int = 0

    def next_load(self) -> StepLoad:
        """Return what the step after the computed ones has to do.

        Each step reads a token more of every sequence, and some begin a block.
        """
        step = len(self.ends)
        count, size = len(self.requests), len(self.phases)
        context = self.context + step * count
        self.held_tokens += len(self.phases[-step % size]) * size
        return StepLoad(
            0,
            count,
            context,
            context,
            adapters=self.adapters,
            distinct_tokens=self.held_tokens,
        )


class EngineCore:
    """One engine: requests in, timestamps and metrics out.

    Args:
        deployment: what it serves, on what.
        skip_ahead: whether steps that change nothing are computed together; the results are equal.
        metrics: what it is booked in; vLLM's by default.
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
        self.cost = CostModel(
            deployment.shape,
            deployment.surroundings.accelerator,
            deployment.chips,
            deployment.kv_bits,
            stages=deployment.flags.pipeline_parallel_size or 1,
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
        self.adapters = AdapterSlots(deployment)
        self._max_adapters = self.adapters.slots if flags.enable_lora else None
        self.metrics = metrics or EngineMetrics(deployment)
        self.metrics.before_render = self._book_state
        self._book_state()
        self.steps = 0
        """Steps computed since the start."""
        self._slowdown = 1.0
        self._skip_ahead = skip_ahead
        self._step: Step | None = None
        self._load = StepLoad(0, 0, 0)
        self._run: _Run | None = None
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
        """By how much steps take longer than the model says: 1 on healthy hardware."""
        return self._slowdown

    def slow_down(self, factor: float, now: float) -> None:
        """Make steps take `factor` times as long from the next one on.

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
        self.scheduler.add(request)

    def abort(self, request: Request, now: float) -> None:
        """End a request before its time; nothing happens where it has ended."""
        self.advance(now)
        if request.finished is not None:
            return
        self._cut()
        self.scheduler.remove(request, FinishReason.ABORT)
        self.metrics.finished(request, now)
        self._news[request] = None
        if self._step is None:
            self._idle_since = max(now, self._idle_since)

    def loads(self) -> list[Request]:
        """Return the requests since the last call whose KV is to be read from another engine."""
        found, self._to_load = self._to_load, []
        return found

    def loaded(self, request: Request, now: float) -> None:
        """Go on with a request whose KV has been read; nothing happens where it has ended."""
        self._interrupt(now)
        if request.finished is None:
            self.scheduler.loaded(request)

    def not_loaded(self, request: Request, now: float, *, recompute: bool) -> None:
        """Compute a prompt whose KV could not be read, or end the request with an error."""
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
        """Decide anew from the end of the step that is under way."""
        self.advance(now)
        self._cut()
        if self._step is None:
            self._idle_since = max(now, self._idle_since)

    def advance(self, now: float) -> None:
        """Compute everything up to a moment."""
        while True:
            if self._step is None and self._run is None and not self._begin():
                return
            if self._run is not None:
                if not self._advance_run(self._run, now):
                    return
            elif self._ends > now:
                return
            else:
                self._complete()

    def news(self) -> list[Request]:
        """Return the requests to be told of since the last call: see `Request.tell_at`."""
        told = list(self._news)
        self._news.clear()
        return told

    def next_event(self) -> float | None:
        """Return when there may be news, or None where nothing is going on."""
        if self._run is not None:
            run = self._run
            due = min(request.tell_at - request.generated for request in run.requests)
            last = min(run.done + max(1, due), run.steps)
            self._extend(run, last)
            return run.ends[last - 1]
        if self._step is None and not self._begin():
            return None
        return self._ends if self._run is None else self.next_event()

    def _begin(self) -> bool:
        """Begin the next step or run; return whether there is one."""
        if not self.unfinished:
            return False
        begun = self._idle_since
        if self._skip_ahead:
            self._run = self._steady(begun)
            if self._run is not None:
                self._reserve(self._run, 0)
                return True
        step = self.scheduler.schedule()
        self._to_load += step.loads
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
        self._ends = begun + seconds * self._slowdown
        return True

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

    def _steady(self, now: float) -> _Run | None:
        """Return the decode steps that follow, where nothing can change in them."""
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
            # a token at every step up to now: all latencies between tokens are the steps' own
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
        return _Run(
            list(running),
            now,
            context,
            len(names),
            min(steps, _LOOK_AHEAD_STEPS),
            phases,
            first,
            scheduler.cache.held_tokens,
        )

    def _extend(self, run: _Run, steps: int) -> None:
        """Compute the times of a run's first steps."""
        moment = run.ends[-1] if run.ends else run.begun
        while len(run.ends) < steps:
            load = run.next_load()
            moment += self.cost.step_seconds(load) * self._slowdown
            run.loads.append(load)
            run.ends.append(moment)

    def _reserve(self, run: _Run, step: int) -> None:
        """Take the blocks that a step of a run begins."""
        for request in run.phases[-step % len(run.phases)]:
            request.blocks += self.scheduler.cache.allocate(1) or []

    def _advance_run(self, run: _Run, now: float) -> bool:
        """Book the steps of a run up to a moment; return whether that was all of it."""
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

    def _book(self, run: _Run, steps: int) -> None:
        """Give the requests of a run their tokens."""
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
        """End a run with the step that is under way: what comes next is to be decided anew."""
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
