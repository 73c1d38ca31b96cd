"""Engines that are advanced in steps of virtual time, while replicas come and go.

A caller that decides on replicas from their load (an autoscaler, a fault) advances all engines to
the time of its next decision, reads their load and the requests that ended, and adds, drains or
kills replicas. `ReferenceEngines` runs on `EngineCore` and is the reference.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from itertools import count
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from simulator.engine.core import EngineCore
from simulator.engine.replay import LOOK_SECONDS
from simulator.engine.request import Request
from simulator.engine.settings import Deployment

_NEVER = 2**62
_NO_PREFIX = -1


@dataclass(frozen=True)
class Requests:
    """Requests in the order of arrival: arrays of one length."""

    number: NDArray[np.int64]
    """The caller's number of each request, which may be used again after the request ended."""
    seconds: NDArray[np.float64]
    """Times of arrival."""
    pool: NDArray[np.int64]
    prompt_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    prefix: NDArray[np.int64]
    """Group of requests whose contexts start with the same tokens, or -1."""
    prefix_tokens: NDArray[np.int64]
    """Leading tokens of prompt and answer that are those of the group. In a growing session, these
    are all tokens of prompt and answer, so that the next turn finds both in the cache."""

    @classmethod
    def none(cls) -> "Requests":
        """Return no requests."""
        whole, real = np.zeros(0, np.int64), np.zeros(0)
        return cls(whole, real, whole, whole, whole, whole, whole)

    def part(self, first: int, end: int) -> "Requests":
        """Return the requests from `first` to before `end`."""
        return Requests(*(getattr(self, each.name)[first:end] for each in fields(self)))

    def check(self, now: float, until: float) -> None:
        """Check lengths, order and sizes.

        Raises:
            ValueError: an array has another length, a request arrives out of order, before `now` or
                after `until`, or has no tokens.
        """
        size = len(self.number)
        for name in ("seconds", "pool", "prompt_tokens", "output_tokens", "prefix_tokens"):
            if len(getattr(self, name)) != size:
                got = len(getattr(self, name))
                raise ValueError(f"{name}: must have {size} values, as number has, got {got}")
        if not size:
            return
        if self.seconds[0] < now or self.seconds[-1] > until or np.any(np.diff(self.seconds) < 0):
            raise ValueError(f"seconds: must ascend from {now:g} to {until:g}")
        for name in ("prompt_tokens", "output_tokens"):
            if (least := int(getattr(self, name).min())) < 1:
                raise ValueError(f"{name}: must be at least 1, got {least}")
        if (least := int(self.prefix_tokens.min())) < 0:
            raise ValueError(f"prefix_tokens: must be at least 0, got {least}")


@dataclass(frozen=True)
class Finished:
    """Requests that ended: arrays of one length, in no particular order."""

    number: NDArray[np.int64]
    replica: NDArray[np.int64]
    first_token_seconds: NDArray[np.float64]
    """Times of the first token; NaN for a request that its engine refused, because its tokens
    exceed the longest context (`--max-model-len`)."""
    last_token_seconds: NDArray[np.float64]
    generated: NDArray[np.int64]
    """Generated tokens; 0 for a refused request."""
    cached_tokens: NDArray[np.int64]
    """Prompt tokens found in the prefix cache."""
    preemptions: NDArray[np.int64]


@dataclass(frozen=True)
class Load:
    """State of the replicas that are not removed, at the time advanced to: arrays by replica."""

    replica: NDArray[np.int64]
    """Numbers, ascending."""
    running: NDArray[np.int64]
    waiting: NDArray[np.int64]
    kv_usage: NDArray[np.float64]
    """Fraction of the KV blocks that sequences hold, 0 to 1."""
    waiting_tokens: NDArray[np.int64]
    """Prompt tokens of the waiting requests."""


class Engines(Protocol):
    """Engines of several pools of replicas; times are seconds since the start and never go back."""

    def add(self, kind: int, at: float) -> int:
        """Add a warm replica with an empty cache, and return its number.

        Args:
            kind: index into the deployments of the engines.
            at: the present time, at least that of the last `advance`.
        """
        ...

    def serve(self, pool: int, replicas: Sequence[int]) -> None:
        """Set the replicas that get the pool's requests from now on."""
        ...

    def drain(self, replica: int, at: float) -> None:
        """Take a replica out of its pool; remove it when its requests have ended."""
        ...

    def kill(self, replica: int, at: float) -> NDArray[np.int64]:
        """Remove a replica at once, and return the numbers of the requests that it loses.

        A replica that has drained loses none.
        """
        ...

    def cancel(self, numbers: NDArray[np.int64], at: float) -> None:
        """Abort requests that have not ended, as when clients disconnect.

        Args:
            numbers: the caller's numbers of the requests.
            at: the present time, to which all engines are advanced.
        """
        ...

    def advance(self, requests: Requests, until: float) -> None:
        """Send requests to their pools' replicas, and compute all engines up to a time.

        Raises:
            ValueError: requests are not in order, or a pool with a request has no replica.
        """
        ...

    def finished(self) -> Finished:
        """Return the requests that ended since the last call."""
        ...

    def load(self) -> Load:
        """Return the load of each replica."""
        ...


@dataclass(frozen=True)
class Arriving:
    """A request that a route sends to a replica."""

    serial: int
    """Number of the request since the start; no other request has it."""
    prompt_tokens: int
    prefix: int
    prefix_tokens: int


class PoolRoute(Protocol):
    """Selects the replicas of one pool's requests."""

    def look(self, replicas: Sequence[int], engines: Sequence[EngineCore]) -> None:
        """See the engines, at most every `LOOK_SECONDS`."""
        ...

    def pick(
        self, request: Arriving, replicas: Sequence[int], engines: Sequence[EngineCore]
    ) -> int:
        """Return the index of a replica, from numbers of replicas and their engines."""
        ...


@dataclass
class RoundRobin:
    """Takes the replicas of a pool in turn."""

    _turn: int = 0

    def look(self, replicas: Sequence[int], engines: Sequence[EngineCore]) -> None:
        """Do nothing."""

    def pick(
        self, request: Arriving, replicas: Sequence[int], engines: Sequence[EngineCore]
    ) -> int:
        """Return the next replica."""
        self._turn += 1
        return (self._turn - 1) % len(replicas)


@dataclass
class LeastRequest:
    """Takes the replica with the fewest unfinished requests."""

    def look(self, replicas: Sequence[int], engines: Sequence[EngineCore]) -> None:
        """Do nothing."""

    def pick(
        self, request: Arriving, replicas: Sequence[int], engines: Sequence[EngineCore]
    ) -> int:
        """Return the first replica with the fewest unfinished requests."""
        return min(range(len(engines)), key=lambda index: engines[index].unfinished)


@dataclass
class Membership:
    """Time and the replicas of each pool; checks what callers give.

    Args:
        kinds: number of kinds of replicas.
    """

    kinds: int
    now: float = 0.0
    pools: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    _pool_of: list[int | None] = field(default_factory=list[int | None])
    """Pool of each replica since the start; None before and after it has one."""
    _left: set[int] = field(default_factory=set[int])

    def add(self, kind: int, at: float) -> int:
        """Return the number of a new replica."""
        self.go_to(at)
        if not 0 <= kind < self.kinds:
            raise ValueError(f"kind: must be 0 to {self.kinds - 1}, got {kind}")
        self._pool_of.append(None)
        return len(self._pool_of) - 1

    def serve(self, pool: int, replicas: Sequence[int]) -> None:
        """Set the replicas of a pool, which must be in no other one."""
        for each in replicas:
            self._check(each)
            if each in self._left or self._pool_of[each] not in (None, pool):
                rule = "must neither drain nor serve another pool"
                raise ValueError(f"replicas: {rule}, got {each}")
        for each in self.pools.get(pool, []):
            self._pool_of[each] = None
        for each in replicas:
            self._pool_of[each] = pool
        self.pools[pool] = [int(each) for each in replicas]

    def leave(self, replica: int, at: float) -> None:
        """Take a replica out of its pool for good."""
        self.go_to(at)
        self._check(replica)
        self._left.add(replica)
        pool = self._pool_of[replica]
        if pool is not None:
            self.pools[pool].remove(replica)
            self._pool_of[replica] = None

    def advance(self, requests: Requests, until: float) -> None:
        """Check requests and their pools."""
        requests.check(self.now, until)
        for each in np.unique(requests.pool).tolist():
            if not self.pools.get(each):
                raise ValueError(f"pool: must have a replica, got none in pool {each}")
        self.now = until

    def go_to(self, now: float) -> None:
        """Set the present time."""
        if now < self.now:
            raise ValueError(f"at: must be at least {self.now:g}, the present time, got {now:g}")
        self.now = now

    def _check(self, replica: int) -> None:
        if not 0 <= replica < len(self._pool_of):
            raise ValueError(f"replica: must exist, got {replica}")


@dataclass
class _Pool:
    route: PoolRoute
    last_look: int = -1


@dataclass
class _Replica:
    engine: EngineCore
    requests: dict[Request, int] = field(default_factory=dict[Request, int])
    """The unfinished requests, with the caller's numbers."""
    is_draining: bool = False


_Row = tuple[int, int, float, float, int, int, int]


class ReferenceEngines:
    """`Engines` on the engine in Python.

    Args:
        kinds: deployments of the kinds of replicas.
        route: returns the route of a pool.
    """

    def __init__(
        self, kinds: Sequence[Deployment], route: Callable[[], PoolRoute] = RoundRobin
    ) -> None:
        self._kinds = kinds
        self._route = route
        self._members = Membership(len(kinds))
        self._pools: dict[int, _Pool] = {}
        self._replicas: dict[int, _Replica] = {}
        self._serials = count()
        self._ended: list[_Row] = []

    def add(self, kind: int, at: float) -> int:
        """Add a replica: see `Engines`."""
        number = self._members.add(kind, at)
        self._replicas[number] = _Replica(EngineCore(self._kinds[kind]))
        return number

    def serve(self, pool: int, replicas: Sequence[int]) -> None:
        """Set the replicas of a pool: see `Engines`."""
        self._members.serve(pool, replicas)
        self._pools.setdefault(pool, _Pool(self._route()))

    def drain(self, replica: int, at: float) -> None:
        """Drain a replica: see `Engines`."""
        self._members.leave(replica, at)
        if replica in self._replicas:
            self._replicas[replica].is_draining = True
            self._advance_one(replica, at)

    def kill(self, replica: int, at: float) -> NDArray[np.int64]:
        """Remove a replica: see `Engines`."""
        self._members.leave(replica, at)
        if replica in self._replicas:
            self._advance_one(replica, at)
        gone = self._replicas.pop(replica, None)
        return np.array(sorted(gone.requests.values()) if gone else [], np.int64)

    def cancel(self, numbers: NDArray[np.int64], at: float) -> None:
        """Abort requests: see `Engines`."""
        self._members.go_to(at)
        gone = set(numbers.tolist())
        for replica in list(self._replicas):
            self._advance_one(replica, at)
            one = self._replicas.get(replica)
            if one is None:
                continue
            for request in [each for each, number in one.requests.items() if number in gone]:
                del one.requests[request]
                one.engine.abort(request, at)
            if one.is_draining and not one.requests:
                del self._replicas[replica]

    def advance(self, requests: Requests, until: float) -> None:
        """Compute all engines up to a time: see `Engines`."""
        self._members.advance(requests, until)
        rows = zip(
            requests.number.tolist(), requests.seconds.tolist(), requests.pool.tolist(),
            requests.prompt_tokens.tolist(), requests.output_tokens.tolist(),
            requests.prefix.tolist(), requests.prefix_tokens.tolist(), strict=True,
        )  # fmt: skip
        for number, seconds, pool, prompt, output, prefix, prefix_tokens in rows:
            arriving = Arriving(next(self._serials), prompt, prefix, prefix_tokens)
            self._send(pool, number, seconds, output, arriving)
        for replica in list(self._replicas):
            self._advance_one(replica, until)

    def finished(self) -> Finished:
        """Return the requests that ended: see `Engines`."""
        rows, self._ended = self._ended, []
        columns = list(zip(*rows, strict=True)) or [()] * 7
        whole = [np.array(columns[index], np.int64) for index in (0, 1, 4, 5, 6)]
        first, last = np.array(columns[2], np.float64), np.array(columns[3], np.float64)
        return Finished(whole[0], whole[1], first, last, *whole[2:])

    def load(self) -> Load:
        """Return the load of each replica: see `Engines`."""
        found = [(number, each.engine.scheduler) for number, each in self._replicas.items()]
        return Load(
            np.array([number for number, _ in found], np.int64),
            np.array([len(each.running) for _, each in found], np.int64),
            np.array([len(each.waiting) for _, each in found], np.int64),
            np.array([each.cache.usage for _, each in found], np.float64),
            np.array([sum(len(r.prompt) for r in each.waiting) for _, each in found], np.int64),
        )

    def _send(
        self, number: int, caller: int, seconds: float, output: int, arriving: Arriving
    ) -> None:
        pool, replicas = self._pools[number], self._members.pools[number]
        engines = [self._replicas[each].engine for each in replicas]
        look = int(seconds / LOOK_SECONDS)
        if look > pool.last_look:
            pool.last_look = look
            for engine in engines:
                engine.advance(look * LOOK_SECONDS)
            pool.route.look(replicas, engines)
        for engine in engines:
            engine.advance(seconds)
        replica = replicas[pool.route.pick(arriving, replicas, engines)]
        chosen = self._replicas[replica]
        if arriving.prompt_tokens + output > chosen.engine.deployment.max_model_len:
            self._ended.append((caller, replica, np.nan, np.nan, 0, 0, 0))
            return
        request = _request(arriving, seconds, output, chosen.engine.deployment.block_size)
        chosen.requests[request] = caller
        chosen.engine.submit(request, seconds)

    def _advance_one(self, replica: int, until: float) -> None:
        """Compute an engine up to a time, and record the requests that ended."""
        one = self._replicas[replica]
        one.engine.advance(until)
        for request in one.engine.news():
            number = one.requests.pop(request, None)
            if number is None:  # it was aborted
                continue
            self._ended.append(
                (
                    number,
                    replica,
                    request.first_token or np.nan,
                    request.last_token or np.nan,
                    request.generated,
                    request.cached_tokens,
                    request.preemptions,
                )
            )
        if one.is_draining and not one.requests:
            del self._replicas[replica]


def _request(arriving: Arriving, seconds: float, output: int, block_size: int) -> Request:
    """Return a request whose blocks have the hashes of its group, then its own."""
    shared = arriving.prefix_tokens if arriving.prefix != _NO_PREFIX else 0
    blocks = (arriving.prompt_tokens + output) // block_size
    of_group = min(shared // block_size, blocks)
    hashes = [hash((arriving.prefix, index, 0)) for index in range(of_group)]
    hashes += [hash((arriving.serial, index, 1)) for index in range(of_group, blocks)]
    return Request(
        id=str(arriving.serial),
        prompt=range(arriving.prompt_tokens),
        max_tokens=output,
        arrival=seconds,
        output=range(output),
        tell_at=_NEVER,
        hashes=hashes,
    )
