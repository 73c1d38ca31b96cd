"""`gke-inference bench disagg`: prompts apart from answers, or not, on the same simulated chips.

The workload and the split are those of llm-d's guide (guides/pd-disaggregation: gpt-oss-120b on 16
H200, 5,000 tokens in and 250 out, 45 requests a second; eight prefill replicas of one chip, two
decode replicas of four). Both arms run simulated engines in virtual time with the same arrivals;
no request passes a gateway. A request goes to the replica with the fewest requests.
"""

import asyncio
import itertools
import random
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
PROMPT_TOKENS = 5000
OUTPUT_TOKENS = 250
SECONDS = 20.0
_CONNECTOR = '{"kv_connector":"NixlConnector","kv_role":"kv_both"}'
PUBLISHED = {
    "ttft_mean_ms": (532.0, 1157.0),
    "itl_mean_ms": (25.0, 4.9),
    "e2e_mean_s": (6.70, 2.78),
}
"""llm-d guides/pd-disaggregation (2026): before, after."""


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
    """Engines of one arm; `prefill` empty: whole replicas."""

    decode: list[Engine]
    prefill: list[Engine] = field(default_factory=list[Engine])

    async def call(self, remote: RemoteKv, verb: str) -> int:
        """Reach a prefilling engine, as the side channel does.

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
    """Return a simulated engine on some chips of the benchmark's kind."""
    flags = [f"--tensor-parallel-size={chips}", "--max-model-len=16384"]
    if fleet is not None:
        flags.append(f"--kv-transfer-config={_CONNECTOR}")
    environment = {"GKE_INFERENCE_SIM_ACCELERATOR": CHIP, "GKE_INFERENCE_SIM_CHIPS": str(chips)}
    return Engine(deploy(parse([MODEL, *flags]), environment), LoopClock(), fleet)


def colocated(chips_each: int) -> Fleet:
    """Return whole replicas on all chips."""
    return Fleet([engine(chips_each) for _ in range(CHIPS // chips_each)])


def disaggregated() -> Fleet:
    """Return llm-d's split: eight times one chip for prompts, two times four for answers."""
    fleet = Fleet([])
    fleet.prefill += [engine(1, fleet) for _ in range(8)]
    fleet.decode += [engine(4, fleet) for _ in range(2)]
    return fleet


def least_busy(engines: list[Engine], turn: int) -> Engine:
    """Return the engine with the fewest requests; of equals, another one each time."""
    order = engines[turn % len(engines) :] + engines[: turn % len(engines)]
    return min(order, key=lambda one: one.unfinished)


async def _finish(one: Engine, request: Request) -> float:
    async for _ in one.results(request):
        pass
    if request.first_token is None:
        raise RuntimeError(f"request {request.id} ended without an answer")
    return request.first_token


async def _ask(fleet: Fleet, turn: int, prompt: list[int]) -> Timing:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    remote = None
    if fleet.prefill:
        prefill = least_busy(fleet.prefill, turn)
        wish = prefill.submit(prompt, [1], 1, keeps_kv=True, stream=False)
        await _finish(prefill, wish)
        params = prefill.kv.answer(wish)
        remote, _ = prefill.kv.wish(params)
    decode = least_busy(fleet.decode, turn)
    output = list(range(OUTPUT_TOKENS + 1))
    request = decode.submit(prompt, output, OUTPUT_TOKENS, remote=remote, stream=False)
    first = await _finish(decode, request)
    return Timing(first - begun, loop.time() - begun)


async def _replay(fleet: Fleet, rate: float, seconds: float, prompt_tokens: int) -> list[Timing]:
    steps = [asyncio.create_task(one.run()) for one in fleet.prefill + fleet.decode]
    choose = random.Random(7)  # noqa: S311 - arrivals, not secrets
    asked: list[asyncio.Task[Timing]] = []
    at = 0.0
    for turn in itertools.count():
        at += choose.expovariate(rate)
        if at > seconds:
            break
        await asyncio.sleep(max(0.0, at - asyncio.get_running_loop().time()))
        prompt = [choose.randrange(1 << 30) for _ in range(prompt_tokens)]
        asked.append(asyncio.create_task(_ask(fleet, turn, prompt)))
    found = await asyncio.gather(*asked)
    for step in steps:
        step.cancel()
    await asyncio.gather(*steps, return_exceptions=True)
    return found


def quantile(values: list[float], part: float) -> float:
    """Return a quantile of some values, the nearest rank."""
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


def compared(before: Row, after: Row) -> Row:
    """Return the ratios of two arms beside the published ones, and how far they are apart."""
    simulated = {
        "ttft_mean_ms": (before["ttft_ms"]["mean"], after["ttft_ms"]["mean"]),
        "itl_mean_ms": (before["tpot_ms"]["mean"], after["tpot_ms"]["mean"]),
        "e2e_mean_s": (before["e2e_mean_s"], after["e2e_mean_s"]),
    }
    out: Row = {"arm": f"ratio to {before['arm']}", "rate": after["rate"]}
    for name, (was, now) in simulated.items():
        published = PUBLISHED[name][1] / PUBLISHED[name][0]
        ratio = now / was
        out[name] = {
            "simulated": round(ratio, 3),
            "published": round(published, 3),
            "error_percent": round(100 * (ratio / published - 1)),
        }
    return out


def rows() -> list[Row]:
    """Return the rows of the benchmark: three arms at the published rate, and a lower rate."""
    made: list[Row] = []
    for rate in (RATE / 3, RATE):
        after = measure("8 x 1 prefill, 2 x 4 decode", disaggregated(), rate)
        arms = [measure(f"{CHIPS // n} x {n} whole", colocated(n), rate) for n in (1, 4)]
        made += [*arms, after]
        if rate == RATE:
            made += [compared(arm, after) for arm in arms]
    # short prompts: what the threshold keeps on decode replicas
    made.append(measure("16 x 1 whole", colocated(1), RATE, 100))
    made.append(measure("8 x 1 prefill, 2 x 4 decode", disaggregated(), RATE, 100))
    return made
