"""Continuous batching: selection of the tokens of the next step.

As in vLLM V1, there are no prefill and decode phases but one token budget per step. Running
requests come first, then waiting ones while budget, sequences, LoRA slots and KV blocks are
available. A prompt larger than the remaining budget is computed in chunks. If blocks run out, the
newest request is preempted and recomputed. Pure: no clock, no I/O.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from planner.speed.roofline import StepLoad
from simulator.engine.kv_cache import KvCache, block_hashes
from simulator.engine.kv_tiers import KvTiers
from simulator.engine.request import FinishReason, Request


@dataclass
class Step:
    """The work of one engine step: (request, tokens) pairs in the order they were scheduled."""

    work: list[tuple[Request, int]] = field(default_factory=list[tuple[Request, int]])
    preempted: list[Request] = field(default_factory=list[Request])
    admitted: list[Request] = field(default_factory=list[Request])
    loads: list[Request] = field(default_factory=list[Request])
    """Requests whose KV must be read from another engine; their blocks are held."""
    tier_loads: list[Request] = field(default_factory=list[Request])
    """Requests whose KV must be read from a lower tier; their blocks are held."""
    prefill_tokens: int = 0
    decode_tokens: int = 0

    def load(self, held_tokens: int | None = None) -> StepLoad:
        """Return the cost of the step.

        Args:
            held_tokens: KV-cache tokens that all its sequences hold together.
        """
        context = 0
        pairs = 0.0
        prompts = 0
        prompt_context = 0
        adapters: set[str] = set()
        for request, tokens in self.work:
            reach = request.computed + tokens
            if not request.decoding:
                prompts += 1
                prompt_context += reach
            context += reach
            # a token attends to those before it and to itself
            pairs += tokens * (request.computed + (tokens + 1) / 2)
            if request.adapter:
                adapters.add(request.adapter)
        return StepLoad(
            self.prefill_tokens,
            self.decode_tokens,
            context,
            pairs,
            adapters=len(adapters),
            distinct_tokens=held_tokens,
            prompts=max(1, prompts),
            prompt_context=prompt_context,
        )


@dataclass
class Scheduler:
    """Waiting and running requests of one engine.

    Args:
        cache: KV cache.
        max_tokens: token budget of a step (`--max-num-batched-tokens`).
        max_sequences: sequences of a step (`--max-num-seqs`).
        max_adapters: LoRA adapters of a step (`--max-loras`).
        by_priority: whether `--scheduling-policy priority` is set.
        chunked: whether prompts can be computed in chunks.
        tiers: tiers of KV cache below the accelerator's memory.
    """

    cache: KvCache
    max_tokens: int
    max_sequences: int
    max_adapters: int = 1
    by_priority: bool = False
    chunked: bool = True
    tiers: KvTiers | None = None
    step: int = 0
    """Number of the step that is scheduled next; a request waits for its `first_step`."""
    waiting: deque[Request] = field(default_factory=deque[Request])
    running: list[Request] = field(default_factory=list[Request])

    def add(self, request: Request) -> None:
        """Queue a request."""
        if not request.hashes:
            size = self.cache.block_size
            request.hashes = block_hashes(request.prompt, size, request.block_salt)
        self.waiting.append(request)

    def remove(self, request: Request, reason: FinishReason) -> None:
        """End a request in any state, and free its blocks."""
        if request in self.running:
            self.running.remove(request)
        elif request in self.waiting:
            self.waiting.remove(request)
        if not (request.keeps_kv and reason is FinishReason.LENGTH):
            self._free(request)
        request.finished = reason

    def release(self, request: Request) -> None:
        """Free the blocks that a finished request kept for another engine."""
        self._free(request)

    def loaded(self, request: Request) -> None:
        """Use the transferred KV, so that only the last token of the prompt must be computed."""
        size = self.cache.block_size
        request.loading = False
        request.remote = None
        request.loaded_tokens = len(request.prompt) - request.computed
        request.computed = max(request.computed, len(request.prompt) - 1)
        for index in range(request.published, min(request.computed // size, len(request.hashes))):
            self.cache.publish(request.blocks[index], request.hashes[index])
        request.published = request.computed // size

    def promoted(self, request: Request) -> None:
        """Use the blocks that were read from lower tiers."""
        load, size = request.load, self.cache.block_size
        request.loading = False
        if load is None:
            return
        first = request.computed // size
        request.computed += len(load.blocks) * size
        if request.preemptions == 0:
            request.loaded_tokens = len(load.blocks) * size
        for index in range(first, first + len(load.blocks)):
            self.cache.publish(request.blocks[index], request.hashes[index])
        request.published = first + len(load.blocks)

    def not_loaded(self, request: Request) -> None:
        """Compute the prompt locally, as with `kv_load_failure_policy: recompute`."""
        request.loading = False
        request.remote = None
        request.computed = 0
        self._free(request)

    @property
    def adapters_running(self) -> list[str]:
        """LoRA adapters of the running requests, sorted."""
        return sorted({request.adapter for request in self.running if request.adapter})

    @property
    def adapters_waiting(self) -> list[str]:
        """LoRA adapters of the waiting requests, sorted."""
        return sorted({request.adapter for request in self.waiting if request.adapter})

    def schedule(self) -> Step:
        """Return the next step's work; an empty step if there is none."""
        step = Step()
        self._schedule_running(step)
        if not step.preempted:
            self._schedule_waiting(step)
        return step

    def _budget(self, step: Step) -> int:
        return self.max_tokens - step.prefill_tokens - step.decode_tokens

    def _schedule_running(self, step: Step) -> None:
        size = self.cache.block_size
        for request in list(self.running):
            tokens = min(request.pending, self._budget(step))
            if tokens == 0:
                return
            if step.preempted and request in step.preempted:
                continue
            short = request.computed + tokens > len(request.blocks) * size
            if short and not self._reserve(request, tokens, step):
                return  # it preempted itself: nothing after it can get blocks either
            self._record(step, request, tokens)

    def _reserve(self, request: Request, tokens: int, step: Step) -> bool:
        """Allocate blocks for more tokens of a request, preempting later requests if needed."""
        while True:
            missing = self.cache.blocks_for(request.computed + tokens) - len(request.blocks)
            got = self.cache.allocate(max(0, missing))
            if got is not None:
                request.blocks += got
                return True
            victim = self._victim()
            self._preempt(victim, step)
            if victim is request:
                return False

    def _victim(self) -> Request:
        if self.by_priority:
            return max(self.running, key=lambda request: (request.priority, request.arrival))
        return self.running[-1]

    def _preempt(self, request: Request, step: Step) -> None:
        self.running.remove(request)
        for index, (scheduled, tokens) in enumerate(step.work):
            if scheduled is request:
                del step.work[index]
                self._count(step, request, -tokens)
                break
        self._free(request)
        request.computed = 0
        request.preemptions += 1
        step.preempted.append(request)
        self.waiting.appendleft(request)

    def _schedule_waiting(self, step: Step) -> None:
        skipped: list[Request] = []
        if self.by_priority:
            self.waiting = deque(sorted(self.waiting, key=lambda r: (r.priority, r.arrival)))
        adapters = set(self.adapters_running)
        is_full = False
        while self.waiting and self._budget(step) and len(self.running) < self.max_sequences:
            request = self.waiting[0]
            is_late = request.first_step > self.step
            if (
                request.loading
                or is_late
                or (request.remote is not None and self._hold(request, step))
            ):
                skipped.append(self.waiting.popleft())
                continue
            if request.adapter not in {None, *adapters} and len(adapters) >= self.max_adapters:
                skipped.append(self.waiting.popleft())
                continue
            if not is_full and self._promotes(request, step):
                skipped.append(self.waiting.popleft())
                continue
            tokens = 0
            if request.blocks or not is_full:
                tokens = self._admit(request, self._budget(step))
            if tokens == 0:
                # those behind it that hold their blocks need no room, and free it when they end
                if not any(each.blocks and not each.loading for each in self.waiting):
                    break
                is_full = True
                skipped.append(self.waiting.popleft())
                continue
            self.waiting.popleft()
            self.running.append(request)
            step.admitted.append(request)
            if request.adapter:
                adapters.add(request.adapter)
            self._record(step, request, tokens)
        self.waiting.extendleft(reversed(skipped))

    def _hold(self, request: Request, step: Step) -> bool:
        """Hold the blocks of a prompt to read from another engine; return whether there is room."""
        cached = self.cache.cached_prefix(request.hashes, len(request.prompt))
        needed = self.cache.blocks_for(len(request.prompt)) - cached
        if needed > self.cache.free_after_prefix(request.hashes, cached):
            return False
        request.blocks = self.cache.take_prefix(request.hashes, cached)
        request.blocks += self.cache.allocate(needed) or []
        request.cached_tokens = request.computed = cached * self.cache.block_size
        request.published = cached
        self.cache.stats.queries += len(request.prompt)
        self.cache.stats.hits += request.computed
        request.loading = True
        step.loads.append(request)
        return True

    def _promotes(self, request: Request, step: Step) -> bool:
        """Hold the blocks of a prompt of which lower tiers have more; return whether they have.

        As in vLLM with `--scheduler-reserve-full-isl`, room for the whole prompt is held, so that
        two prompts cannot wait for each other's blocks.
        """
        if self.tiers is None or request.blocks or request.remote is not None:
            return False
        cached = self.cache.cached_prefix(request.hashes, request.length)
        most = (request.length - 1) // self.cache.block_size
        needed = self.cache.blocks_for(request.length) - cached
        if needed > self.cache.free_after_prefix(request.hashes, cached):
            return False
        load = self.tiers.find(request.hashes[cached:most])
        if not load.blocks:
            return False
        request.blocks = self.cache.take_prefix(request.hashes, cached)
        request.blocks += self.cache.allocate(needed) or []
        request.computed = cached * self.cache.block_size
        request.published = cached
        self._count_prefix(request)
        request.load, request.loading = load, True
        step.tier_loads.append(request)
        return True

    def _count_prefix(self, request: Request) -> None:
        if request.preemptions == 0:
            request.cached_tokens = request.computed
            self.cache.stats.queries += len(request.prompt)
            self.cache.stats.hits += request.computed

    def _admit(self, request: Request, budget: int) -> int:
        """Hold blocks for a waiting request; return the tokens to compute now, 0 without room."""
        if request.remote is not None:
            return 0
        if request.blocks:  # they were filled from another engine or a lower tier
            left = request.length - request.computed
            return left if left <= budget else budget * self.chunked
        cached = self.cache.cached_prefix(request.hashes, request.length)
        computed = cached * self.cache.block_size
        tokens = request.length - computed
        if tokens > budget:
            if not self.chunked:
                return 0
            tokens = budget
        needed = self.cache.blocks_for(computed + tokens) - cached
        if needed > self.cache.free_after_prefix(request.hashes, cached):
            return 0
        request.blocks = self.cache.take_prefix(request.hashes, cached)
        request.blocks += self.cache.allocate(needed) or []
        request.computed = computed
        request.published = cached
        self._count_prefix(request)
        return tokens

    @staticmethod
    def _count(step: Step, request: Request, tokens: int) -> None:
        if request.decoding:
            step.decode_tokens += tokens
        else:
            step.prefill_tokens += tokens

    def _record(self, step: Step, request: Request, tokens: int) -> None:
        step.work.append((request, tokens))
        self._count(step, request, tokens)

    def complete(self, step: Step) -> list[Request]:
        """Record a finished step; return the requests that got a token (or their vector)."""
        answered: list[Request] = []
        for request, tokens in step.work:
            if request.finished is not None:
                continue
            request.computed += tokens
            self.publish(request, request.computed)
            if request.pending > 0:
                continue
            answered.append(request)
            if not request.pooling:
                request.generated += 1
        self.finish_complete(answered)
        return answered

    def finish_complete(self, requests: Iterable[Request]) -> list[Request]:
        """End those requests that have all their tokens, and return them."""
        ended: list[Request] = []
        for request in requests:
            reason = None
            if request.pooling:
                reason = FinishReason.STOP
            elif request.generated >= request.max_tokens:
                reason = FinishReason.LENGTH
            elif request.generated >= len(request.output):
                reason = FinishReason.STOP
            if reason is not None:
                self.remove(request, reason)
                ended.append(request)
        return ended

    def publish(self, request: Request, computed: int) -> None:
        """Index the blocks of a request that its first `computed` tokens fill."""
        size = self.cache.block_size
        full = computed // size
        if full <= request.published or not self.cache.prefix_caching:
            return
        for index in range(request.published, full):
            if index == len(request.hashes):
                parent = request.hashes[-1] if request.hashes else request.block_salt
                tokens = request.tokens(index * size, (index + 1) * size)
                request.hashes += block_hashes(tokens, size, parent)
            self.cache.publish(request.blocks[index], request.hashes[index])
        request.published = full

    def _free(self, request: Request) -> None:
        self.cache.release(request.blocks)
        request.blocks = []
        request.published = 0
