"""The compiled core gives what the engine in Python gives, request by request."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.engine import compiled
from simulator.engine.replay import (
    Cluster,
    Replay,
    TraceRequest,
    least_request,
    replay,
    round_robin,
    session_affine,
    two_choices,
    uniform,
)
from simulator.engine.stepped import (
    Engines,
    LeastRequest,
    ReferenceEngines,
    Requests,
    RoundRobin,
)
from simulator.replays.modelled_picker import ModelledPicker, PickerRoute
from simulator.replays.picker_configs import UPSTREAM_DEFAULTS, Facts, shipped
from simulator.replays.planning import picked, picked_engines
from simulator.tests.unit.engine.support import deployment

pytestmark = pytest.mark.needs_tools

ROUTES = {
    "round-robin": (round_robin, RoundRobin),
    "least-request": (least_request, LeastRequest),
}
REPLAYED = {
    **{name: route for name, (route, _) in ROUTES.items()},
    "random": uniform,
    "two-choices": two_choices,
    "session-affine": session_affine,
}
"""Routes of a replay."""
SHIPPED = shipped(Facts())
DRAWN = """
plugins:
- {type: prefix-cache-scorer}
- {type: queue-scorer}
- {type: weighted-random-picker}
- {type: approx-prefix-cache-producer, parameters: {autoTune: false, blockSizeTokens: 32,
   maxPrefixBlocksToMatch: 20, lruCapacityPerServer: 30}}
schedulingProfiles:
- plugins:
  - {pluginRef: prefix-cache-scorer, weight: 3}
  - {pluginRef: queue-scorer, weight: 2}
  - {pluginRef: weighted-random-picker}
"""
"""A picker that draws by score, and remembers few blocks."""
LIMITED = """
plugins:
- {type: running-requests-size-scorer}
- {type: prefix-cache-scorer}
- {type: utilization-detector, parameters: {queueDepthThreshold: 2, kvCacheUtilThreshold: 0.5}}
schedulingProfiles:
- plugins:
  - {pluginRef: utilization-detector}
  - {pluginRef: running-requests-size-scorer, weight: 1}
  - {pluginRef: prefix-cache-scorer, weight: 3}
"""
"""A picker that leaves out replicas with little room."""
PICKERS = {
    "picker": SHIPPED,
    "upstream": UPSTREAM_DEFAULTS,
    "drawn": DRAWN,
    "lora": shipped(Facts(has_adapters=True)),
    "limited": LIMITED,
}
FLAGS = (
    (),
    ("--num-gpu-blocks-override=150", "--max-model-len=2048"),
    ("--num-gpu-blocks-override=150", "--max-model-len=2048", "--no-enable-prefix-caching"),
    ("--max-num-batched-tokens=256", "--max-num-seqs=8"),
    ("--max-num-batched-tokens=2048", "--max-model-len=2048", "--no-enable-chunked-prefill"),
    ("--no-async-scheduling",),
)


@st.composite
def traces(draw: st.DrawFn) -> list[TraceRequest]:
    """Bursts and pauses; prompts that share a prefix, a whole question or nothing."""
    found: list[TraceRequest] = []
    moment = 0.0
    for _ in range(draw(st.integers(1, 40))):
        moment += draw(st.sampled_from([0.0, 0.001, 0.013, 0.11, 2.0]))
        prefix = draw(st.sampled_from([0, 160, 300]))
        found.append(
            TraceRequest(
                moment,
                prefix + draw(st.integers(1, 700)),
                draw(st.sampled_from([1, 2, 17, 60, 200])),
                group=draw(st.sampled_from(["", "a", "b"])),
                prefix_tokens=prefix,
                question=draw(st.sampled_from([None, "q", "r"])),
            )
        )
    return found


def same(found: Replay, expected: Replay) -> None:
    """Check that two replays have equal requests, replicas and times."""
    for one, other in zip(found.outcomes, expected.outcomes, strict=True):
        assert one.request is other.request
        assert (one.replica, one.cached_tokens, one.preemptions) == (
            other.replica, other.cached_tokens, other.preemptions,
        )  # fmt: skip
        times = [(one.ttft, other.ttft), (one.tpot, other.tpot), (one.e2e, other.e2e)]
        assert all(a == pytest.approx(b, rel=1e-9) for a, b in times if b is not None)


@settings(max_examples=40, deadline=None)
@given(
    trace=traces(),
    flags=st.sampled_from(FLAGS),
    route=st.sampled_from([*REPLAYED, *PICKERS]),
    replicas=st.integers(1, 3),
)
def test_every_request_has_the_times_that_the_engine_in_python_gives(
    trace: list[TraceRequest], flags: tuple[str, ...], route: str, replicas: int
):
    made = deployment(*flags)
    if route in PICKERS:
        expected = picked([made] * replicas, PICKERS[route], seed=7).play(trace)
        settings = ModelledPicker(PICKERS[route], seed=7).settings
        found = compiled.replay(trace, made, replicas, settings)
    else:
        expected = replay(trace, [made] * replicas, REPLAYED[route]())
        found = compiled.replay(trace, made, replicas, route, seed=0)
    assert found.prefix_hit_ratio == expected.prefix_hit_ratio
    same(found, expected)


ADAPTERS = ("a", "b", "c", "d")
LORA = (
    "--enable-lora", "--max-loras=2", "--max-cpu-loras=3", "--lora-modules",
    *(f"{name}=gs://adapters/{name}" for name in ADAPTERS),
)  # fmt: skip
LORA_FLAGS = (
    LORA,
    ("--num-gpu-blocks-override=150", "--max-model-len=2048", *LORA),
    ("--max-num-batched-tokens=256", "--max-num-seqs=4", *LORA),
)


@settings(max_examples=40, deadline=None)
@given(
    traces=st.lists(traces(), min_size=1, max_size=2),
    adapters=st.lists(st.sampled_from([None, *ADAPTERS]), min_size=80, max_size=80),
    flags=st.sampled_from(LORA_FLAGS),
    route=st.sampled_from(["round-robin", "two-choices", "lora", "limited"]),
)
def test_adapters_traces_in_a_row_and_slow_replicas_have_the_times_of_the_engine_in_python(
    traces: list[list[TraceRequest]],
    adapters: list[str | None],
    flags: tuple[str, ...],
    route: str,
):
    usual = deployment(*flags)
    slow = replace(usual, step_factor=3.0)
    fleet = [usual, slow, usual]
    if route in PICKERS:
        reference = picked(fleet, PICKERS[route], seed=7)
        cluster = compiled.CompiledCluster(fleet, ModelledPicker(PICKERS[route], seed=7).settings)
    else:
        reference = Cluster(fleet, REPLAYED[route]())
        cluster = compiled.CompiledCluster(fleet, route)
    given_adapters = iter(adapters)
    for trace in traces:
        asked = [replace(each, adapter=next(given_adapters)) for each in trace]
        expected, found = reference.play(asked), cluster.play(asked)
        same(found, expected)
        assert cluster.now == pytest.approx(reference.now, rel=1e-9)
    cluster.close()


@pytest.mark.parametrize(
    "words",
    [("Qwen/Qwen3-30B-A3B",), ("openai/gpt-oss-120b", "--max-num-seqs=16")],
)
def test_a_mixture_of_experts_has_the_same_times(words: tuple[str, ...]):
    model, *flags = words
    made = deployment(*flags, model=model, GKE_INFERENCE_SIM_ACCELERATOR="nvidia-h200-141gb")
    trace = [TraceRequest(0.1 * n, 50 + 7 * n, 20) for n in range(30)]
    expected = replay(trace, [made], round_robin())
    found = compiled.replay(trace, made, 1, "round-robin")
    assert [one.e2e for one in found.outcomes] == pytest.approx(
        [one.e2e for one in expected.outcomes], rel=1e-9
    )


def test_what_is_not_compiled_is_told():
    assert compiled.supports(deployment())
    assert not compiled.supports(deployment("--scheduling-policy=priority"))
    assert not compiled.supports(deployment("--kv-offloading-size=8"))
    with pytest.raises(ValueError, match="no priorities"):
        compiled.replay([TraceRequest(0.0, 10, 10, priority=1)], deployment(), 1, "round-robin")
    with pytest.raises(ValueError, match=r"adapter: must be one .* got a"):
        compiled.replay([TraceRequest(0.0, 10, 10, adapter="a")], deployment(), 1, "round-robin")


_Row = tuple[float, int, int, int, int, int]


@st.composite
def days(draw: st.DrawFn) -> list[tuple[str, Any]]:
    """Arrivals in steps of time; replicas come, drain and are killed, and clients disconnect."""
    found: list[tuple[str, Any]] = []
    moment = 0.0
    for _ in range(draw(st.integers(1, 5))):
        rows: list[_Row] = []
        for _ in range(draw(st.integers(0, 25))):
            moment += draw(st.sampled_from([0.0, 0.001, 0.013, 0.11, 2.0]))
            prompt, output = draw(st.integers(1, 900)), draw(st.sampled_from([1, 2, 17, 60, 200]))
            prefix = draw(st.sampled_from([-1, -1, 0, 1, 2]))
            # a part of the prompt, as a system prompt, or all, as in a growing session
            shared = draw(st.sampled_from([0, prompt // 2, prompt, prompt + output]))
            pool = draw(st.integers(0, 1))
            rows.append((moment, pool, prompt, output, prefix, shared))
        moment += draw(st.sampled_from([0.0, 0.004, 0.5, 30.0]))
        found.append(("advance", (rows, moment)))
        event = draw(st.sampled_from(["add", "drain", "kill"]))
        found.append((event, (draw(st.integers(0, 1)), moment)))
        if draw(st.booleans()):
            found.append(("cancel", (draw(st.integers(1, 4)), moment)))
    return [*found, ("advance", ([], moment + 10_000.0))]


def lived(engines: Engines, day: list[tuple[str, Any]]) -> list[Any]:
    """What a day gives: ended and lost requests, and the load after each step."""
    pools = {number: [engines.add(number, 0.0), engines.add(0, 0.0)] for number in (0, 1)}
    for number, replicas in pools.items():
        engines.serve(number, replicas)
    found: list[Any] = []
    sent = 0
    for event, details in day:
        if event == "advance":
            rows, until = details
            columns = np.array(rows, np.float64).reshape(-1, 6).T
            whole = columns[1:].astype(np.int64)
            numbers = np.arange(sent, sent + len(rows))
            engines.advance(Requests(numbers, columns[0], *whole), until)
            sent += len(rows)
            ended = engines.finished()
            order = np.argsort(ended.number)
            names = ("number", "replica", "generated", "cached_tokens", "preemptions")
            found += [getattr(ended, name)[order].tolist() for name in names]
            for name in ("first_token_seconds", "last_token_seconds"):
                found.append(getattr(ended, name)[order])
            load = engines.load()
            names = ("replica", "running", "waiting", "waiting_tokens")
            found += [getattr(load, name).tolist() for name in names]
            found.append(load.kv_usage)
            continue
        pool, at = details
        if event == "cancel":  # each of the last requests by so many, ended or not
            engines.cancel(np.arange(max(0, sent - 20), sent, pool), at)
        elif event == "add":
            pools[pool].append(engines.add(1, at))
            engines.serve(pool, pools[pool])
        elif len(pools[pool]) > 1:
            gone = pools[pool].pop(0)
            if event == "drain":
                engines.drain(gone, at)
            else:
                found.append(engines.kill(gone, at).tolist())
    return found


SMALL = ("--num-gpu-blocks-override=100", "--max-model-len=1500")
STEPPED_FLAGS = (
    ("--max-model-len=8192",),
    SMALL,
    (*SMALL, "--max-num-batched-tokens=256"),
    (*SMALL, "--max-num-seqs=3", "--no-async-scheduling"),
)


@settings(max_examples=30, deadline=None)
@given(
    day=days(),
    flags=st.sampled_from(STEPPED_FLAGS),
    route=st.sampled_from([*ROUTES, *PICKERS]),
)
def test_engines_advanced_in_steps_give_what_those_in_python_give(
    day: list[tuple[str, Any]], flags: tuple[str, ...], route: str
):
    kinds = [deployment(*flags), deployment(*flags, GKE_INFERENCE_SIM_ACCELERATOR="nvidia-l4")]
    if route in PICKERS:
        reference = ReferenceEngines(kinds, lambda: PickerRoute(PICKERS[route]))
        engines = picked_engines(kinds, PICKERS[route])
    else:
        reference = ReferenceEngines(kinds, ROUTES[route][1])
        engines = compiled.engines(kinds, route)
    assert isinstance(engines, compiled.CompiledEngines)
    expected = lived(reference, day)
    for one, other in zip(lived(engines, day), expected, strict=True):
        if isinstance(other, np.ndarray):
            np.testing.assert_allclose(one, other, rtol=1e-9)
        else:
            assert one == other
    engines.close()


def test_a_program_that_ends_is_told():
    engines = compiled.CompiledEngines([deployment()])
    engines._process.kill()  # what the system does where memory is missing
    with pytest.raises(RuntimeError, match="replayer ended with -9"):
        engines.finished()
