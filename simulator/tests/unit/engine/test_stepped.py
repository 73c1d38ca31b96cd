"""Engines that are advanced in steps, while replicas come and go."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from simulator.engine.replay import TraceRequest, least_request, replay, round_robin
from simulator.engine.stepped import (
    Finished,
    LeastRequest,
    ReferenceEngines,
    Requests,
    RoundRobin,
)
from simulator.tests.unit.engine.support import deployment


def requests(*rows: tuple[float, int, int], pool: int = 0, first: int = 0) -> Requests:
    """Requests of one pool from seconds, prompt and output tokens."""
    count = len(rows)
    columns = list(zip(*rows, strict=True))
    return Requests(
        np.arange(first, first + count),
        np.array(columns[0], np.float64),
        np.full(count, pool),
        np.array(columns[1], np.int64),
        np.array(columns[2], np.int64),
        np.full(count, -1),
        np.zeros(count, np.int64),
    )


def by_number(*parts: Finished) -> dict[int, tuple[int, float, float]]:
    return {
        int(n): (int(r), float(a), float(b))
        for each in parts
        for n, r, a, b in zip(
            each.number, each.replica, each.first_token_seconds, each.last_token_seconds,
            strict=True,
        )
    }  # fmt: skip


@pytest.mark.parametrize(
    ("route", "expected"), [(RoundRobin, round_robin), (LeastRequest, least_request)]
)
def test_steps_of_any_length_give_the_times_of_a_replay(route: type, expected: Callable[[], Any]):
    made = deployment()
    rows = [(0.11 * n, 100 + 37 * n % 900, 1 + 13 * n % 90) for n in range(40)]
    trace = [TraceRequest(*each) for each in rows]
    played = replay(trace, [made] * 3, expected())
    engines = ReferenceEngines([made], route)
    engines.serve(0, [engines.add(0, 0.0) for _ in range(3)])
    parts = [engines.finished()]
    for number, until in enumerate((0.5, 0.6, 3.0, 60.0)):
        start = (0.0, 0.5, 0.6, 3.0)[number]
        chosen = [n for n, each in enumerate(rows) if start < each[0] <= until or not n + number]
        engines.advance(requests(*(rows[n] for n in chosen), first=chosen[0]), until)
        parts.append(engines.finished())
    assert by_number(*parts) == {
        n: (
            one.replica,
            pytest.approx(one.request.arrival + one.ttft),
            pytest.approx(one.request.arrival + one.e2e),
        )
        for n, one in enumerate(played.outcomes)
        if one.ttft is not None and one.e2e is not None
    }


def test_a_drained_replica_ends_its_requests_and_gets_no_more():
    engines = ReferenceEngines([deployment()])
    first, second = engines.add(0, 0.0), engines.add(0, 0.0)
    engines.serve(0, [first, second])
    engines.advance(requests((0.0, 100, 200), (0.1, 100, 200)), 0.2)
    engines.drain(first, 0.2)
    engines.advance(requests((0.3, 100, 5), (0.4, 100, 5), first=2), 0.5)
    assert engines.load().running.tolist() == [1, 1]
    engines.advance(Requests.none(), 60.0)
    ended = by_number(engines.finished())
    assert [ended[n][0] for n in range(4)] == [first, second, second, second]
    assert engines.load().replica.tolist() == [second]
    assert engines.kill(first, 60.0).tolist() == []


def test_a_killed_replica_loses_its_requests():
    engines = ReferenceEngines([deployment("--max-num-seqs=1")])
    engines.serve(3, [engines.add(0, 0.0)])
    engines.advance(requests((0.0, 100, 500), (0.1, 70, 500), pool=3, first=7), 0.2)
    load = engines.load()
    assert (load.running.tolist(), load.waiting.tolist()) == ([1], [1])
    assert load.waiting_tokens.tolist() == [70]
    assert 0 < load.kv_usage[0] < 0.01
    assert engines.kill(0, 0.3).tolist() == [7, 8]
    assert engines.load().replica.tolist() == []
    assert engines.finished().number.tolist() == []
    with pytest.raises(ValueError, match="pool: must have a replica, got none in pool 3"):
        engines.advance(requests((0.3, 100, 500), pool=3), 0.4)


def test_the_next_turn_of_a_session_finds_prompt_and_answer_in_the_cache():
    engines = ReferenceEngines([deployment()])
    engines.serve(0, [engines.add(0, 0.0)])
    one, other, length = np.array([0, 0]), np.array([4, 4]), np.array([320, 800])
    turns = Requests(one, np.array([0.0, 30.0]), one, length, one + 160, other, length + 160)
    engines.advance(turns, 60.0)
    # the last generated token is not computed, so its block is not full
    assert engines.finished().cached_tokens.tolist() == [0, 464]


def test_an_engine_refuses_what_exceeds_its_longest_context():
    engines = ReferenceEngines([deployment("--max-model-len=1000")])
    engines.serve(0, [engines.add(0, 0.0)])
    engines.advance(requests((0.0, 990, 11), (0.0, 990, 10)), 10.0)
    ended = engines.finished()
    assert ended.generated.tolist() == [0, 10]
    assert np.isnan(ended.first_token_seconds).tolist() == [True, False]


@pytest.mark.parametrize(
    ("rows", "until", "message"),
    [
        (((0.2, 10, 10), (0.1, 10, 10)), 1.0, "seconds: must ascend from 0 to 1"),
        (((0.2, 10, 10),), 0.1, "seconds: must ascend from 0 to 0.1"),
        (((0.2, 0, 10),), 1.0, "prompt_tokens: must be at least 1, got 0"),
    ],
)
def test_requests_out_of_order_or_without_tokens_are_refused(
    rows: tuple[tuple[float, int, int], ...], until: float, message: str
):
    engines = ReferenceEngines([deployment()])
    engines.serve(0, [engines.add(0, 0.0)])
    with pytest.raises(ValueError, match=message):
        engines.advance(requests(*rows), until)
