"""Traces are the same for the same seed and have the load that was asked for."""

import itertools
from typing import Any

import pytest

import simulator.traffic
from simulator.server.bodies import text
from simulator.traffic import Trace, mixed_lengths, multi_adapter, poisson_times, shared_prefix
from simulator.traffic.generators import text_of


def shared(seed=1, **fields):
    options: dict[str, Any] = {
        "rate": 20.0,
        "seconds": 5.0,
        "prefix_tokens": 50,
        "question_tokens": 10,
        **fields,
    }
    return Trace.merge("t", shared_prefix(seed=seed, **options))


def test_the_same_seed_gives_the_same_trace_and_another_seed_another():
    assert shared().digest == shared().digest
    assert shared().digest != shared(seed=2).digest


def test_a_stage_has_its_number_of_requests_in_its_time():
    times = poisson_times(30.0, 10.0, seed=1, start=5.0)
    assert len(times) == 300
    assert (times[0], times == sorted(times)) == (5.0, True)
    assert 14.0 < times[-1] < 15.0


def test_gaps_are_as_uneven_as_a_poisson_process():
    times = poisson_times(10.0, 1000.0, seed=3)
    gaps = [b - a for a, b in itertools.pairwise(times)]
    mean = sum(gaps) / len(gaps)
    deviation = (sum((g - mean) ** 2 for g in gaps) / len(gaps)) ** 0.5
    assert deviation / mean == pytest.approx(1.0, abs=0.05)


def test_no_request_at_all_is_refused():
    with pytest.raises(ValueError, match=r"must give a request, got 0\.01 x 1"):
        poisson_times(0.01, 1.0, seed=1)


def test_groups_share_their_prefix_and_nothing_else():
    trace = shared(groups=3, prompts_per_group=2)
    prefixes = {ask.group: ask.prompt.prefix for ask in trace.asks}
    assert len(set(prefixes.values())) == 3
    assert len({ask.prompt.text for ask in trace.asks}) == 6
    assert all(ask.prompt.prefix == prefixes[ask.group] for ask in trace.asks)


def test_every_prompt_comes_once_before_any_comes_again():
    trace = shared(groups=10, prompts_per_group=5)
    texts = [ask.prompt.text for ask in trace.asks]
    assert len(set(texts[:50])) == 50
    assert set(texts[50:100]) == set(texts[:50])
    assert texts[50:100] != texts[:50]


def test_the_engine_counts_the_tokens_that_were_meant():
    for tokens in (1, 17, 600):
        found = text_of(tokens, "x")
        assert (len(text.tokenize(found)), len(found)) == (tokens, 4 * tokens)


def test_lengths_are_drawn_from_their_ranges_in_their_shares():
    asks = list(
        mixed_lengths(
            rate=100, seconds=20, seed=1,
            prompts=[(0.9, 10, 20), (0.1, 100, 120)], outputs=[(1, 5, 6)],
        )
    )  # fmt: skip
    lengths = [len(ask.prompt.text) // 4 for ask in asks]
    long = sum(length >= 100 for length in lengths) / len(lengths)
    assert long == pytest.approx(0.1, abs=0.03)
    assert {ask.output_tokens for ask in asks} == {5, 6}
    assert len({ask.prompt.text for ask in asks}) == len(asks)


def test_popular_adapters_are_asked_for_more_often():
    names = [f"a{n}" for n in range(20)]
    asks = list(multi_adapter(rate=200, seconds=20, seed=1, adapters=names, prompt_tokens=5))
    counts = [sum(ask.model == name for ask in asks) for name in names]
    assert counts[0] / counts[9] == pytest.approx(10, rel=0.4)
    assert min(counts) > 0


def test_a_merged_trace_is_in_order_and_can_be_moved():
    trace = Trace.merge(
        "t", mixed_lengths(rate=10, seconds=2, seed=1, prompts=[(1, 5, 5)], outputs=[(1, 1, 1)]),
        multi_adapter(rate=10, seconds=2, seed=1, adapters=["a"], prompt_tokens=5),
    )  # fmt: skip
    times = [ask.at for ask in trace.asks]
    assert (len(times), times) == (40, sorted(times))
    assert trace.shifted(3.0).seconds == pytest.approx(trace.seconds + 3.0)


def test_the_public_names_are_those_of_the_package():
    assert simulator.traffic.__all__ == sorted(simulator.traffic.__all__)
    assert all(hasattr(simulator.traffic, name) for name in simulator.traffic.__all__)
