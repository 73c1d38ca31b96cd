"""Traces faster than the clock, by the same engine as the server's."""

import asyncio
import random
from typing import Any

import pytest

from simulator.engine.engine import Engine
from simulator.engine.replay import (
    Replay,
    TraceRequest,
    least_request,
    prefix_affine,
    replay,
    round_robin,
    uniform,
)
from simulator.replays.planning import requests_of
from simulator.tests.unit.engine.support import ReplayClock, deployment
from simulator.traffic import Trace, shared_prefix


def a_trace(requests: int = 40, rate: float = 20.0) -> list[TraceRequest]:
    stream = shared_prefix(
        rate=rate, seconds=requests / rate, seed=1, groups=6, prefix_tokens=600,
        question_tokens=100, output_tokens=50,
    )  # fmt: skip
    return requests_of(Trace.merge("t", stream), "model")


def test_the_same_trace_gives_the_same_figures():
    runs = [replay(a_trace(), [deployment()] * 3, uniform(7)) for _ in range(2)]
    assert runs[0].outcomes == runs[1].outcomes
    assert [e.metrics.generated.total() for e in runs[0].engines] == [
        e.metrics.generated.total() for e in runs[1].engines
    ]


def test_every_request_is_finished_and_counted():
    result = replay(a_trace(), [deployment()] * 2, round_robin())
    assert all(o.e2e is not None and o.e2e > (o.ttft or 0) > 0 for o in result.outcomes)
    assert sum(e.metrics.generated.total() for e in result.engines) == 40 * 50
    assert [o.replica for o in result.outcomes[:4]] == [0, 1, 0, 1]


def test_affinity_finds_prefixes_that_round_robin_computes_again():
    spread = replay(a_trace(), [deployment()] * 4, round_robin())
    kept = replay(a_trace(), [deployment()] * 4, prefix_affine())
    assert kept.prefix_hit_ratio is not None
    assert spread.prefix_hit_ratio is not None
    assert kept.prefix_hit_ratio > spread.prefix_hit_ratio + 0.2
    assert kept.mean_ttft() < spread.mean_ttft()


def test_the_least_loaded_replica_gets_the_request():
    trace = [TraceRequest(0.0, 10, 500), TraceRequest(1.0, 10, 1), TraceRequest(1.5, 10, 1)]
    result = replay(trace, [deployment()] * 2, least_request())
    assert [o.replica for o in result.outcomes] == [0, 1, 1]


def test_a_request_that_shares_everything_is_mostly_found():
    trace = [
        TraceRequest(moment, 700, 5, group="g", prefix_tokens=600, question="q")
        for moment in (0.0, 5.0)
    ]
    first, second = replay(trace, [deployment()], round_robin()).outcomes
    assert first.cached_tokens == 0
    assert second.cached_tokens == 688  # whole blocks of 16, never the last token


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"prompt_tokens": 0, "output_tokens": 1}, "at least 1"),
        ({"prompt_tokens": 5, "output_tokens": 1, "prefix_tokens": 6}, "prefix_tokens must be"),
    ],
)
def test_an_impossible_request_is_refused(wrong: dict[str, Any], problem: str):
    with pytest.raises(ValueError, match=problem):
        TraceRequest(0.0, **wrong)


def test_a_route_to_nowhere_is_refused():
    with pytest.raises(ValueError, match="got 3"):
        replay(a_trace(1), [deployment()], lambda _request, _engines: 3)
    with pytest.raises(ValueError, match="at least one replica"):
        replay(a_trace(1), [], round_robin())


def served(trace: list[TraceRequest]) -> list[tuple[float, float]]:
    """Send a trace to the engine of the server on a clock; return (TTFT, end to end)."""

    async def main() -> list[tuple[float, float]]:
        clock = ReplayClock()
        engine = Engine(deployment(), clock)
        steps = asyncio.create_task(engine.run())
        begun = clock.now()
        out: list[tuple[float, float]] = []

        async def one(entry: TraceRequest, number: int) -> None:
            prompt = [number * 10_000 + i for i in range(entry.prompt_tokens)]
            request = engine.submit(prompt, [1] * entry.output_tokens, entry.output_tokens)
            async for _ in engine.results(request):
                pass
            out.append(
                (
                    (request.first_token or 0.0) - request.arrival,
                    (request.last_token or 0.0) - request.arrival,
                )
            )

        for number, entry in enumerate(trace):
            clock.time = max(clock.time, begun + entry.arrival)
            await one(entry, number)
        steps.cancel()
        return out

    return asyncio.run(main())


def test_replay_and_server_agree_on_requests_one_after_the_other():
    rng = random.Random(1)
    trace = [
        TraceRequest(10.0 * number, rng.randint(10, 4000), rng.randint(2, 200))
        for number in range(8)
    ]
    result: Replay = replay(trace, [deployment()], round_robin())
    computed = [(o.ttft, o.e2e) for o in result.outcomes]
    for (ttft, e2e), (real_ttft, real_e2e) in zip(computed, served(trace), strict=True):
        assert ttft == pytest.approx(real_ttft, rel=1e-6)
        assert e2e == pytest.approx(real_e2e, rel=1e-6)
