"""Streams of requests: renewal processes with Gamma gaps, stretched by a rate over time.

A stream is a renewal process with a mean rate of 1, whose time is the integral of the stream's
rate. So the mean rate and the variation of gaps are as stated at any time of the day.

A stream is made in blocks, each with random numbers of its own, from seed, stream and number of
the block: the same seed gives the same requests, whatever the size of chunks.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simulator.demand.arrivals import GROWING, MOST, Arrivals, arrivals_of
from simulator.demand.pattern import QUANTILES, Documents, Kind, Sessions

_BUFFERED = 1 << 22
"""Requests in the blocks of all streams at a time."""
BLOCKS, CURVES = 1, 0
"""Purposes of random numbers: of a block, of a curve."""


@dataclass(frozen=True)
class Curve:
    """The integral of a rate: requests since the start, at knots between which it is linear."""

    seconds: NDArray[np.float64]
    requests: NDArray[np.float64]

    @property
    def total(self) -> float:
        """Expected requests."""
        return float(self.requests[-1])

    def time_of(self, requests: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the times at which so many requests are expected."""
        return np.interp(requests, self.requests, self.seconds)


@dataclass(frozen=True)
class Groups:
    """Prefix groups of a stream: request i belongs to slot i modulo `slots`.

    Slots take their turns one after the other; a group ends after `turns` requests of its slot,
    and the slot's next group begins. At the start, slots are at different turns.
    """

    turns: int
    slots: int

    def of(self, first: int, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the groups' numbers and the turns of requests from number `first` on."""
        number = np.arange(first, first + count, dtype=np.int64)
        slot = number % self.slots
        turn = number // self.slots + slot * self.turns // self.slots
        return slot + self.slots * (turn // self.turns), turn % self.turns


@dataclass
class Stream:
    """Requests of one model, kind and region."""

    number: int
    seed: int
    model: int
    region: int
    kind: Kind
    curve: Curve
    block: int
    teams: NDArray[np.int16] | None
    prompts: NDArray[np.int32] | None
    outputs: NDArray[np.int32]
    context: int | None
    groups: Groups | None
    made: int = 0
    """Requests in earlier blocks."""
    blocks: int = 0
    reached: float = 0.0
    """Requests expected until the last one made."""
    waiting: list[Arrivals] = field(default_factory=list[Arrivals])

    def before(self, end: float) -> list[Arrivals]:
        """Return the requests before a time that no earlier call returned."""
        while (not self.waiting or self.waiting[-1].seconds[-1] < end) and not self.is_done:
            made = self._next_block()
            if len(made):
                self.waiting.append(made)
        found: list[Arrivals] = []
        while self.waiting:
            first = self.waiting[0]
            cut = int(np.searchsorted(first.seconds, end, side="left"))
            if cut:
                found.append(first[:cut])
            if cut < len(first):
                self.waiting[0] = first[cut:]
                break
            self.waiting.pop(0)
        return found

    @property
    def is_done(self) -> bool:
        """Whether all blocks are made."""
        return self.reached >= self.curve.total

    @property
    def shape(self) -> float:
        """Shape of the Gamma distribution of gaps: 1 / CV².

        The mean number of requests in a burst is CV². A session asks again after an answer, so a
        burst has at most one request of each session that is open.
        """
        stated = self.kind.gap_cv**-2
        if self.kind.sessions is None or self.groups is None:
            return stated
        return max(stated, 1 / self.groups.slots)

    def _next_block(self) -> Arrivals:
        random = np.random.Generator(
            np.random.SFC64(np.random.SeedSequence([self.seed, BLOCKS, self.number, self.blocks]))
        )
        count = self.block
        shape = self.shape
        gaps = random.standard_gamma(shape, count) / shape
        if self.blocks == 0:  # in equilibrium from the start: rates would begin too high otherwise
            gaps[0] = random.random() * random.standard_gamma(shape + 1) / shape
        at = self.reached + np.cumsum(gaps)
        self.reached = float(at[-1])
        made = self._requests(random, at)
        self.made += count
        self.blocks += 1
        return made[: int(np.searchsorted(at, self.curve.total, side="left"))]

    def _requests(self, random: np.random.Generator, at: NDArray[np.float64]) -> Arrivals:
        count = len(at)
        drawn = random.integers(0, QUANTILES, (3, count), dtype=np.uint16)
        outputs = self.outputs[drawn[0]]
        prefix = np.full(count, -1, np.int64)
        prefix_tokens = np.zeros(count, np.int32)
        chosen = drawn[2]
        if self.groups is not None:
            prefix, turn = self.groups.of(self.made, count)
            chosen = _scattered(prefix, self.seed, 1)  # a group belongs to a team
            prompts, prefix_tokens = self._grouped(prefix, turn)
        else:
            if self.prompts is None:
                raise AssertionError("a kind without sessions has prompts")
            prompts = self.prompts[drawn[1]]
            shared = self.kind.system_prompts
            if shared is not None:
                prefix = random.integers(0, shared.groups, count, dtype=np.int64)
                prefix_tokens = np.full(count, shared.tokens, np.int32)
                prompts = prompts + np.int32(shared.tokens)
        if self.context is not None:
            outputs = np.minimum(outputs, self.context - 1)
            prompts = np.minimum(prompts, self.context - outputs)
            prefix_tokens = np.minimum(prefix_tokens, prompts)
        base = (self.number << 40) + (GROWING if self.kind.sessions is not None else 0)
        prefix = np.where(prefix < 0, prefix, prefix + base)
        teams = np.full(count, -1, np.int16) if self.teams is None else self.teams[chosen]
        columns = (
            self.curve.time_of(at), np.full(count, self.model), teams,
            np.full(count, self.region), prompts, outputs, prefix, prefix_tokens,
        )  # fmt: skip
        return arrivals_of(*columns)

    def _grouped(
        self, group: NDArray[np.int64], turn: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        sessions, documents = self.kind.sessions, self.kind.documents
        if sessions is not None:
            first, more = _scaled(sessions, self.context, int(self.outputs[-1]))
            prompts = first + more * turn
            before = np.where(turn > 0, prompts - more, 0)
            return prompts.astype(np.int32), before.astype(np.int32)
        if documents is None or self.prompts is None:
            raise AssertionError("groups are of sessions or of documents")
        prompts = self.prompts[_scattered(group, self.seed, 2)]
        if self.context is not None:
            prompts = np.minimum(prompts, self.context - 1)
        return prompts, (prompts * documents.share).astype(np.int32)


def _scaled(sessions: Sessions, context: int | None, longest_output: int) -> tuple[int, int]:
    """Return first tokens and growth, so that the last turn and its answer fit the context."""
    last = sessions.first_tokens + sessions.tokens_per_turn * (sessions.turns - 1)
    if context is None or last + longest_output <= context:
        return sessions.first_tokens, sessions.tokens_per_turn
    scale = max(context - longest_output, 1) / last
    return max(1, int(sessions.first_tokens * scale)), int(sessions.tokens_per_turn * scale)


def _scattered(numbers: NDArray[np.int64], seed: int, purpose: int) -> NDArray[np.uint16]:
    """Return 16 random bits for each number: splitmix64, whose constants these are."""
    mixed = numbers.astype(np.uint64) + np.uint64((seed * 4 + purpose + 1) % 2**64)
    mixed = mixed * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (mixed >> np.uint64(48)).astype(np.uint16)


def groups_of(kind: Kind, rate: float) -> Groups | None:
    """Return the prefix groups of a stream with a mean rate; None if its prompts share nothing."""
    grouped: Sessions | Documents | None = kind.sessions or kind.documents
    if grouped is None:
        return None
    turns = grouped.turns if isinstance(grouped, Sessions) else grouped.requests
    return Groups(turns, max(1, round(rate * grouped.gap_seconds)))


def choice(weights: Sequence[float]) -> NDArray[np.int16]:
    """Return a table of 16-bit random numbers to indices, by weight."""
    limits = np.cumsum(weights) / sum(weights) * QUANTILES
    return np.searchsorted(limits, np.arange(QUANTILES) + 0.5).astype(np.int16)


def block_of(streams: int) -> int:
    """Return the requests of a block, so that the blocks of all streams fit into memory."""
    return int(2 ** math.floor(math.log2(max(256, min(65_536, _BUFFERED // max(streams, 1))))))


def merged(streams: Sequence[Stream], most: int = MOST) -> Iterator[Arrivals]:
    """Yield the requests of streams in the order of arrival, in chunks of at most `most`."""
    for end in _ends([stream.curve for stream in streams], most):
        parts = [part for stream in streams for part in stream.before(end)]
        if not parts:
            continue
        joined = Arrivals.joined(parts)
        joined = joined[np.argsort(joined.seconds, kind="stable")]
        for start in range(0, len(joined), most):
            yield joined[start : start + most]


def _ends(curves: Sequence[Curve], most: int) -> Iterator[float]:
    """Yield times between which fewer than `most` requests are expected; the last is infinite."""
    knots = curves[0].seconds
    for curve in curves[1:]:
        if curve.seconds is not knots:
            knots = np.union1d(knots, curve.seconds)
    total = np.sum([np.interp(knots, curve.seconds, curve.requests) for curve in curves], axis=0)
    step = 0.8 * most
    for number in range(1, int(total[-1] // step) + 1):
        yield float(np.interp(number * step, total, knots))
    yield math.inf


@dataclass(frozen=True)
class Streamed:
    """Traffic of streams."""

    models: tuple[str, ...]
    seconds: float
    make: Callable[[], Sequence[Stream]]
    """Returns the streams at their start."""
    teams: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()

    def chunks(self, most: int = MOST) -> Iterator[Arrivals]:
        """Yield all requests in the order of arrival, in chunks of at most `most`."""
        return merged(self.make(), most)
