"""Replay of a request trace on the engines of a fleet, faster than real time.

Scheduler, cache and cost model are those of the server, without HTTP and real time. The same trace,
replicas and routing give the same figures on every machine.
"""

import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from zlib import crc32

from simulator.engine.core import EngineCore
from simulator.engine.kv_cache import PrefixStats, block_hashes, salt_of
from simulator.engine.request import FinishReason, Request
from simulator.engine.settings import Deployment

_NEVER = 2**62
HTTP_SECONDS = 0.013
"""Time of an answer that an engine's API server takes, besides the engine: parsing, tokenizing,
detokenizing and HTTP. Fitted to the closed loops of Llama 3.1 8B on one H100 (`accuracy`)."""


@dataclass(frozen=True)
class TraceRequest:
    """One request of a trace.

    Requests of one `group` start with the same `prefix_tokens` tokens; requests of one `group` with
    the same `question` are the same prompt.
    """

    arrival: float
    """Seconds since the start of the trace."""
    prompt_tokens: int
    output_tokens: int
    group: str = ""
    prefix_tokens: int = 0
    question: str | None = None
    """None for a unique question."""
    adapter: str | None = None
    priority: int = 0

    def __post_init__(self) -> None:
        """Check the sizes.

        Raises:
            ValueError: a size is not positive, or the prefix is longer than the prompt.
        """
        if self.prompt_tokens < 1 or self.output_tokens < 1:
            raise ValueError(
                "prompt_tokens and output_tokens must be at least 1, got "
                f"{self.prompt_tokens} and {self.output_tokens}"
            )
        if not 0 <= self.prefix_tokens <= self.prompt_tokens:
            raise ValueError(
                f"prefix_tokens must be 0 to prompt_tokens ({self.prompt_tokens}), "
                f"got {self.prefix_tokens}"
            )


@dataclass(frozen=True)
class Outcome:
    """The outcome of one request, with times in seconds."""

    request: TraceRequest
    replica: int
    ttft: float | None
    """Time from arrival to the first token; None if there was none."""
    tpot: float | None
    """Mean time between tokens after the first; None for fewer than two."""
    e2e: float | None
    """Time from arrival to the last token; None if it did not finish."""
    cached_tokens: int
    loaded_tokens: int
    """Prompt tokens whose KV came from lower tiers."""
    preemptions: int


@dataclass
class Replay:
    """The outcomes of a trace, in the order of arrival, and the counters of the engines."""

    outcomes: list[Outcome]
    engines: list[EngineCore]
    """None if the compiled core played the trace."""
    compiled: PrefixStats | None = None
    """The counters of the prefix caches, if the compiled core played the trace."""

    @property
    def seconds(self) -> float:
        """Time from the first arrival to the last token."""
        ends = [o.request.arrival + o.e2e for o in self.outcomes if o.e2e is not None]
        return max(ends) - self.outcomes[0].request.arrival if ends else 0.0

    @property
    def output_tokens_per_second(self) -> float:
        """Output tokens per second of all finished requests over `seconds`."""
        tokens = sum(o.request.output_tokens for o in self.outcomes if o.e2e is not None)
        return tokens / self.seconds if tokens else 0.0

    @property
    def prefix_hit_ratio(self) -> float | None:
        """Fraction of the prompt tokens found in the caches, 0 to 1; None without look-ups."""
        stats = [engine.scheduler.cache.stats for engine in self.engines]
        stats += [self.compiled] if self.compiled is not None else []
        queries = sum(each.queries for each in stats)
        hits = sum(each.hits for each in stats)
        return hits / queries if queries else None

    def mean_ttft(self) -> float:
        """Return the mean time to first token of requests that got one; NaN if none did."""
        values = [o.ttft for o in self.outcomes if o.ttft is not None]
        return sum(values) / len(values) if values else math.nan

    def mean_tpot(self) -> float:
        """Return the mean time between tokens of requests that got several; NaN if none did."""
        values = [o.tpot for o in self.outcomes if o.tpot is not None]
        return sum(values) / len(values) if values else math.nan


Route = Callable[[TraceRequest, Sequence[EngineCore]], int]
"""Selects a replica for an arriving request, from the current state of the engines."""
Look = Callable[[Sequence[EngineCore]], None]
"""Sees the engines periodically, like a router that reads their metrics."""
LOOK_SECONDS = 0.05
"""Interval at which the endpoint picker reads its replicas' metrics: its own default."""


def round_robin() -> Route:
    """Return a round-robin route."""
    numbers = count()
    return lambda _request, engines: next(numbers) % len(engines)


def uniform(seed: int = 0) -> Route:
    """Return a random route."""
    choose = random.Random(seed)  # noqa: S311  # routing, not secrets
    return lambda _request, engines: choose.randrange(len(engines))


def least_request() -> Route:
    """Return a route to the replica with the fewest unfinished requests."""
    return lambda _request, engines: min(
        range(len(engines)), key=lambda index: engines[index].unfinished
    )


def two_choices(seed: int = 0) -> Route:
    """Return a route to the one of two random replicas with fewer unfinished requests.

    It is Envoy's least-request policy, which looks at two replicas unless configured otherwise.
    """
    choose = random.Random(seed)  # noqa: S311  # routing, not secrets

    def route(_request: TraceRequest, engines: Sequence[EngineCore]) -> int:
        first, other = (choose.randrange(len(engines)) for _ in range(2))
        return other if engines[other].unfinished < engines[first].unfinished else first

    return route


def session_affine() -> Route:
    """Return a route that sends prompts with one question to one replica, as turns of a session.

    The first one goes to the replica with the fewest unfinished requests.
    """
    homes: dict[tuple[str | None, str, int, str], int] = {}
    least = least_request()

    def route(request: TraceRequest, engines: Sequence[EngineCore]) -> int:
        if request.question is None:
            return least(request, engines)
        key = (request.adapter, request.group, request.prefix_tokens, request.question)
        if key not in homes:
            homes[key] = least(request, engines)
        return homes[key]

    return route


def prefix_affine(slack: int = 4) -> Route:
    """Return a route that sends requests of a group to the same replica.

    A group goes to its previous replica, unless that has more than one and a half times the
    unfinished requests of the least loaded one plus `slack`. Then, and at first, it goes to the
    least loaded.
    """
    homes: dict[str, int] = {}

    def route(request: TraceRequest, engines: Sequence[EngineCore]) -> int:
        loads = [engine.unfinished for engine in engines]
        idlest = loads.index(min(loads))
        home = homes.get(request.group)
        if home is None or loads[home] > 1.5 * loads[idlest] + slack:
            homes[request.group] = home = idlest
        return home

    return route


@dataclass
class _Prompts:
    """Tokens and hashes of prompts; those of a shared prefix are computed once."""

    block_size: int
    _prefixes: dict[tuple[str, int, int], tuple[list[int], list[int]]] = field(
        default_factory=dict[tuple[str, int, int], tuple[list[int], list[int]]]
    )
    _own: Iterator[int] = field(default_factory=count)

    def of(self, request: TraceRequest) -> tuple[list[int], list[int]]:
        """Return the tokens of a prompt and the hashes of its full blocks."""
        salt = salt_of(request.adapter)
        key = (request.group, request.prefix_tokens, salt)
        if key not in self._prefixes:
            prefix = _tokens(f"prefix {request.group}", request.prefix_tokens)
            self._prefixes[key] = (prefix, block_hashes(prefix, self.block_size, salt))
        prefix, hashes = self._prefixes[key]
        name = request.question if request.question is not None else f"own {next(self._own)}"
        rest = _tokens(f"{request.group}/{name}", request.prompt_tokens - len(prefix))
        tokens = prefix + rest
        tail = tokens[len(hashes) * self.block_size :]
        parent = hashes[-1] if hashes else salt
        return tokens, hashes + block_hashes(tail, self.block_size, parent)


def _tokens(name: str, size: int) -> list[int]:
    start = crc32(name.encode())
    return list(range(start, start + size))


class Cluster:
    """Replicas that run traces one after another and keep their caches.

    Args:
        deployments: one per replica; all start with empty caches.
        route: selects the replica of each arriving request.
        look: called with the engines every `LOOK_SECONDS`.
        http_seconds: time of the API server, which each first token and each answer has.

    Raises:
        ValueError: there is no replica.
    """

    def __init__(
        self,
        deployments: Sequence[Deployment],
        route: Route,
        look: Look | None = None,
        http_seconds: float = 0.0,
    ) -> None:
        if not deployments:
            raise ValueError("a replay needs at least one replica, got none")
        self.engines = [EngineCore(deployment) for deployment in deployments]
        self.now = 0.0
        """Seconds since the start of the first trace."""
        self._route = route
        self._http = http_seconds
        self._look = look
        self._last_look = -1
        self._requests = 0
        self._prompts = {made.block_size: _Prompts(made.block_size) for made in deployments}

    def play(self, trace: Iterable[TraceRequest]) -> Replay:
        """Compute the outcomes of a trace that starts now; `now` is then its end.

        Raises:
            ValueError: the route chose a replica that does not exist.
        """
        begun = self.now
        placed: list[tuple[TraceRequest, int, Request]] = []
        for entry in sorted(trace, key=lambda item: item.arrival):
            self._show(begun, begun + entry.arrival)
            self._advance(begun + entry.arrival)
            index = self._route(entry, self.engines)
            if not 0 <= index < len(self.engines):
                raise ValueError(f"the route must choose 0 to {len(self.engines) - 1}, got {index}")
            engine = self.engines[index]
            tokens, hashes = self._prompts[engine.deployment.block_size].of(entry)
            request = _request(entry, self._requests, tokens, hashes)
            request.arrival = begun + entry.arrival
            self._requests += 1
            engine.submit(request, request.arrival)
            placed.append((entry, index, request))
        for engine in self.engines:
            while (moment := engine.next_event()) is not None:
                engine.advance(moment)
                engine.news()
                self.now = max(self.now, moment)
        return Replay([_outcome(*item, self._http) for item in placed], self.engines)

    def _show(self, begun: float, now: float) -> None:
        """Run the router's last look before a time, with the engines at that time."""
        number = int(now / LOOK_SECONDS)
        if self._look is None or number <= self._last_look:
            return
        self._last_look = number
        self._advance(max(begun, number * LOOK_SECONDS))
        self._look(self.engines)

    def _advance(self, now: float) -> None:
        for engine in self.engines:
            engine.advance(now)
            engine.news()


def replay(
    trace: Iterable[TraceRequest], deployments: Sequence[Deployment], route: Route
) -> Replay:
    """Compute the outcomes of a trace on replicas with empty caches: see `Cluster`."""
    return Cluster(deployments, route).play(trace)


def play_closed(
    lengths: Sequence[tuple[int, int]], deployment: Deployment, at_once: int, http_seconds: float
) -> list[Outcome]:
    """Compute the outcomes of clients that each send a request when their last one has ended.

    Args:
        lengths: prompt and output tokens of each request, in the order in which they are sent.
        deployment: the engine, with an empty cache.
        at_once: number of clients.
        http_seconds: time of the API server for each answer.
    """
    engine, prompts = EngineCore(deployment), _Prompts(deployment.block_size)
    sent: list[tuple[TraceRequest, Request]] = []

    def send(now: float) -> None:
        if len(sent) == len(lengths):
            return
        entry = TraceRequest(now, *lengths[len(sent)])
        request = _request(entry, len(sent), *prompts.of(entry))
        engine.submit(request, now)
        sent.append((entry, request))

    for _ in range(at_once):
        send(0.0)
    while (moment := engine.next_event()) is not None:
        engine.advance(moment)
        for request in engine.news():
            if request.finished is not None:
                send(moment)
    return [_outcome(entry, 0, request, http_seconds) for entry, request in sent]


def _request(entry: TraceRequest, number: int, tokens: list[int], hashes: list[int]) -> Request:
    return Request(
        id=str(number),
        prompt=tokens,
        max_tokens=entry.output_tokens,
        arrival=entry.arrival,
        adapter=entry.adapter,
        priority=entry.priority,
        output=range(number * 100_000, number * 100_000 + entry.output_tokens),
        block_salt=salt_of(entry.adapter),
        tell_at=_NEVER,
        hashes=hashes,
    )


def _outcome(entry: TraceRequest, index: int, request: Request, http: float) -> Outcome:
    first, last = request.first_token, request.last_token
    whole = request.finished is FinishReason.LENGTH
    between = request.generated - 1
    return Outcome(
        request=entry,
        replica=index,
        ttft=None if first is None else first - request.arrival + http,
        tpot=(last - first) / between if first is not None and last and between > 0 else None,
        e2e=last - request.arrival + http if last is not None and whole else None,
        cached_tokens=request.cached_tokens,
        loaded_tokens=request.loaded_tokens,
        preemptions=request.preemptions,
    )
