"""The compiled core gives what the engine in Python gives, request by request."""

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.engine import compiled
from simulator.engine.replay import TraceRequest, least_request, replay, round_robin
from simulator.tests.unit.engine.support import deployment

ROUTES = {"round-robin": round_robin, "least-request": least_request}
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


@settings(max_examples=40, deadline=None)
@given(
    trace=traces(),
    flags=st.sampled_from(FLAGS),
    route=st.sampled_from(sorted(ROUTES)),
    replicas=st.integers(1, 3),
)
def test_every_request_has_the_times_that_the_engine_in_python_gives(
    trace: list[TraceRequest], flags: tuple[str, ...], route: str, replicas: int
):
    made = deployment(*flags)
    expected = replay(trace, [made] * replicas, ROUTES[route]())
    found = compiled.replay(trace, made, replicas, route)
    assert found.prefix_hit_ratio == expected.prefix_hit_ratio
    for one, other in zip(found.outcomes, expected.outcomes, strict=True):
        assert one.request is other.request
        assert (one.replica, one.cached_tokens, one.preemptions) == (
            other.replica, other.cached_tokens, other.preemptions,
        )  # fmt: skip
        times = [(one.ttft, other.ttft), (one.tpot, other.tpot), (one.e2e, other.e2e)]
        assert all(a == pytest.approx(b, rel=1e-9) for a, b in times if b is not None)


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
    with pytest.raises(ValueError, match="no adapters and no priorities"):
        compiled.columns([TraceRequest(0.0, 10, 10, adapter="a")], 16)


def test_the_compiler_is_imported_only_where_a_trace_is_played():
    code = "import sys, scripts.plan.replay; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
