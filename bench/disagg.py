"""`bench disagg`: disaggregated serving and whole replicas on the same chips.

The workload and both arms are those of llm-d's guide (guides/pd-disaggregation: gpt-oss-120b on 16
H200, 5,000 tokens in, which the engine counts as 5,151, and 250 out, 45 requests a second). Before:
16 replicas of one chip behind a Kubernetes Service, which chooses at random for each connection;
each request has its own, except in one arm. After: eight prefill replicas of one chip and two
decode replicas of four behind a picker. All arms run simulated engines in virtual time with the
same arrivals; no request passes a gateway. The picker knows a prefill
replica's load as of its last step, which is when an engine exports its metrics.
"""

import asyncio
import itertools
import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from simulator.engine.clock import LoopClock, run_virtual
from simulator.engine.engine import Engine
from simulator.engine.kv_transfer import TransferError
from simulator.engine.request import RemoteKv, Request
from simulator.engine.settings import deploy
from twin.engines.vllm_flags import parse

Row = dict[str, Any]
MODEL = "openai/gpt-oss-120b"
CHIP = "nvidia-h200-141gb"
CHIPS = 16
RATE = 45.0
PROMPT_TOKENS = 5151
OUTPUT_TOKENS = 250
SECONDS = 60.0
WORKERS = 45
"""Processes of the load generator, as in the guide's report; each has its own connections."""
IDLE_SECONDS = 5.0
"""Time after which vLLM closes an idle connection (`VLLM_HTTP_TIMEOUT_KEEP_ALIVE`)."""
_CONNECTOR = '{"kv_connector":"NixlConnector","kv_role":"kv_both"}'
PUBLISHED = {
    "one cluster": {
        "ttft_mean_ms": (532.0, 1444.0),
        "tpot_mean_ms": (25.0, 8.3),
        "e2e_mean_s": (6.70, 3.54),
    },
    "two clusters": {
        "ttft_mean_ms": (532.0, 1157.0),
        "tpot_mean_ms": (25.0, 5.7),
        "e2e_mean_s": (6.70, 2.78),
    },
}
"""llm-d guides/pd-disaggregation, before and after: revision 94a3b72, both on one cluster in April
2026; and revision 027a053, whose new second figures are from another cluster, router and vLLM."""


@dataclass(frozen=True)
class Timing:
    """One answered request, in seconds."""

    first: float
    whole: float

    @property
    def per_token(self) -> float:
        """Mean time of each token after the first."""
        return (self.whole - self.first) / (OUTPUT_TOKENS - 1)


@dataclass
class Fleet:
    """Engines of one arm; without `prefill`, whole replicas."""

    decode: list[Engine]
    prefill: list[Engine] = field(default_factory=list[Engine])
    keeps_connections: bool = False
    """Whether requests to whole replicas use idle connections again."""

    async def call(self, remote: RemoteKv, verb: str) -> int:
        """Call a prefill engine, like the side channel.

        Raises:
            TransferError: it does not have the prompt.
        """
        for engine in self.prefill:
            request = engine.kv.kept(remote.request_id)
            if request is not None:
                if verb == "done":
                    engine.release(request)
                return engine.kv.chips
        raise TransferError(remote.request_id)


def engine(chips: int, fleet: Fleet | None = None) -> Engine:
    """Return a simulated engine on a number of chips of the benchmark's kind."""
    flags = [f"--tensor-parallel-size={chips}", "--max-model-len=16384"]
    if fleet is not None:
        flags.append(f"--kv-transfer-config={_CONNECTOR}")
    environment = {
        "GKE_INFERENCE_SIM_ACCELERATOR": CHIP,
        "GKE_INFERENCE_SIM_CHIPS": str(chips),
        "GKE_INFERENCE_SIM_NETWORK": "rdma",
    }
    return Engine(deploy(parse([MODEL, *flags]), environment), LoopClock(), fleet)


def colocated(chips_each: int, *, keeps_connections: bool = False) -> Fleet:
    """Return whole replicas on all chips."""
    engines = [engine(chips_each) for _ in range(CHIPS // chips_each)]
    return Fleet(engines, keeps_connections=keeps_connections)


def disaggregated() -> Fleet:
    """Return llm-d's split: eight prefill replicas of one chip, two decode replicas of four."""
    fleet = Fleet([])
    fleet.prefill += [engine(1, fleet) for _ in range(8)]
    fleet.decode += [engine(4, fleet) for _ in range(2)]
    return fleet


class Connections:
    """Connections of the load generator's workers to a Kubernetes Service.

    The Service chooses an engine at random for each new connection. If connections are kept, the
    choice is inference-perf's: it has one aiohttp session per worker, which reuses the connection
    that has been idle for the longest time.
    """

    def __init__(self, engines: list[Engine], choose: random.Random, *, kept: bool) -> None:
        self._engines = engines
        self._choose = choose
        self._kept = kept
        self._idle: list[deque[tuple[Engine, float]]] = [deque() for _ in range(WORKERS)]

    def take(self, now: float) -> tuple[int, Engine]:
        """Return a worker, and the engine of the connection that it uses."""
        if not self._kept:
            return 0, self._choose.choice(self._engines)
        worker = self._choose.randrange(WORKERS)
        idle = self._idle[worker]
        while idle:
            one, since = idle.popleft()
            if now - since < IDLE_SECONDS:
                return worker, one
        return worker, self._choose.choice(self._engines)

    def leave(self, worker: int, one: Engine, now: float) -> None:
        """Keep a connection whose response is complete, or close it."""
        if self._kept:
            self._idle[worker].append((one, now))


class Seen:
    """Load of engines as a picker knows it: as of each engine's last finished step."""

    def __init__(self, choose: random.Random) -> None:
        self._choose = choose
        self._at: dict[Engine, tuple[int, int]] = {}

    def least_busy(self, engines: list[Engine]) -> Engine:
        """Return an engine with the fewest requests, as far as known; ties are random."""
        for one in engines:
            if one not in self._at or self._at[one][0] != one.core.steps:
                self._at[one] = (one.core.steps, one.unfinished)
        least = min(self._at[one][1] for one in engines)
        return self._choose.choice([one for one in engines if self._at[one][1] == least])


def least_busy(engines: list[Engine], turn: int) -> Engine:
    """Return the engine with the fewest requests; ties rotate."""
    order = engines[turn % len(engines) :] + engines[: turn % len(engines)]
    return min(order, key=lambda one: one.unfinished)


async def _finish(one: Engine, request: Request) -> float:
    async for _ in one.results(request):
        pass
    if request.first_token is None:
        raise RuntimeError(f"request {request.id} ended without an answer")
    return request.first_token


async def _ask(
    fleet: Fleet, turn: int, prompt: list[int], seen: Seen, connections: Connections
) -> Timing:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    remote = None
    if fleet.prefill:
        prefill = seen.least_busy(fleet.prefill)
        wish = prefill.submit(prompt, [1], 1, keeps_kv=True, stream=False)
        await _finish(prefill, wish)
        params = prefill.kv.answer(wish)
        remote, _ = prefill.kv.wish(params)
        worker, decode = None, least_busy(fleet.decode, turn)
    else:
        worker, decode = connections.take(begun)
    output = list(range(OUTPUT_TOKENS + 1))
    request = decode.submit(prompt, output, OUTPUT_TOKENS, remote=remote, stream=False)
    first = await _finish(decode, request)
    if worker is not None:
        connections.leave(worker, decode, loop.time())
    return Timing(first - begun, loop.time() - begun)


async def _replay(fleet: Fleet, rate: float, seconds: float, prompt_tokens: int) -> list[Timing]:
    steps = [asyncio.create_task(one.run()) for one in fleet.prefill + fleet.decode]
    choose = random.Random(7)  # noqa: S311 - arrivals, not secrets
    route = random.Random(3)  # noqa: S311 - replicas, not secrets
    seen = Seen(route)
    connections = Connections(fleet.decode, route, kept=fleet.keeps_connections)
    asked: list[asyncio.Task[Timing]] = []
    at = 0.0
    for turn in itertools.count():
        at += choose.expovariate(rate)
        if at > seconds:
            break
        await asyncio.sleep(max(0.0, at - asyncio.get_running_loop().time()))
        prompt = [choose.randrange(1 << 30) for _ in range(prompt_tokens)]
        asked.append(asyncio.create_task(_ask(fleet, turn, prompt, seen, connections)))
    found = await asyncio.gather(*asked)
    for step in steps:
        step.cancel()
    await asyncio.gather(*steps, return_exceptions=True)
    return found


def quantile(values: list[float], part: float) -> float:
    """Return a quantile by the nearest rank."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(part * len(ranked)))]


def measure(name: str, fleet: Fleet, rate: float, prompt_tokens: int = PROMPT_TOKENS) -> Row:
    """Return the latencies of one arm."""
    timings: list[Timing] = run_virtual(_replay(fleet, rate, SECONDS, prompt_tokens))
    ttft = [1000 * timing.first for timing in timings]
    tpot = [1000 * timing.per_token for timing in timings]
    return {
        "arm": name,
        "rate": rate,
        "prompt_tokens": prompt_tokens,
        "requests": len(timings),
        "ttft_ms": _spread(ttft),
        "tpot_ms": _spread(tpot),
        "e2e_mean_s": round(sum(timing.whole for timing in timings) / len(timings), 2),
    }


def _spread(values: list[float]) -> Row:
    mean = sum(values) / len(values)
    parts = {"mean": mean, "p50": quantile(values, 0.5), "p99": quantile(values, 0.99)}
    return {name: round(value, 2) for name, value in parts.items()}


def compared(before: Row, after: Row, pair: str) -> Row:
    """Return the ratios of two arms, those of a published pair, and their differences."""
    simulated = {
        "ttft_mean_ms": (before["ttft_ms"]["mean"], after["ttft_ms"]["mean"]),
        "tpot_mean_ms": (before["tpot_ms"]["mean"], after["tpot_ms"]["mean"]),
        "e2e_mean_s": (before["e2e_mean_s"], after["e2e_mean_s"]),
    }
    out: Row = {"arm": f"ratio to {before['arm']}, {pair}", "rate": after["rate"]}
    for name, (was, now) in simulated.items():
        was_published, now_published = PUBLISHED[pair][name]
        published = now_published / was_published
        ratio = now / was
        out[name] = {
            "simulated": round(ratio, 3),
            "published": round(published, 3),
            "error_percent": round(100 * (ratio / published - 1)),
        }
    return out


def rows() -> Iterator[Row]:
    """Yield the rows of the benchmark: arms at a lower rate, then at the published one."""
    for rate in (RATE / 3, RATE):
        arms: list[Row] = []
        for chips in (1, 4):
            arms.append(measure(f"{CHIPS // chips} x {chips} whole", colocated(chips), rate))
            yield arms[-1]
        after = measure("8 x 1 prefill, 2 x 4 decode", disaggregated(), rate)
        yield after
        if rate == RATE:
            yield from (compared(arms[0], after, pair) for pair in PUBLISHED)
            kept = colocated(1, keeps_connections=True)
            yield measure("16 x 1 whole, connections kept", kept, rate)
    # short prompts, which the threshold keeps on decode replicas
    yield measure("16 x 1 whole", colocated(1), RATE, 100)
    yield measure("8 x 1 prefill, 2 x 4 decode", disaggregated(), RATE, 100)
