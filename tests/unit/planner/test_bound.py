"""What limits a replica within its latency targets."""

from typing import Any

import pytest

from gke_inference.sizing.architectures import find
from planner.choice.bound import BANDWIDTH, CAPACITY, COMPUTE, NETWORK, QUEUE, Bound, bound
from planner.choice.plan import plan
from planner.choice.question import Question
from planner.speed.throughput import BATCHES


def of(name: str, accelerator: str, parallelism: str, **changes) -> Bound:
    model = find(name)
    assert model is not None
    values: dict[str, Any] = {"rate": 1.0, "given": 1000, "made": 200, "bits": (16,), **changes}
    asked = Question(model, accelerators=(accelerator,), **values)
    one = next(
        each.candidate
        for each in plan(asked).choices
        if each.candidate.form.parallelism == parallelism
    )
    return bound(asked, one)


@pytest.mark.parametrize(
    ("candidate", "changes", "name"),
    [
        ("llama-3.1-8b nvidia-l4 TP1", {"given": 2000, "tpot_p95_ms": 400, "ttft_p95_ms": 8000,
                                         "context": 8000}, CAPACITY),
        ("llama-3.1-8b nvidia-l4 TP1", {"given": 50, "tpot_p95_ms": 70}, BANDWIDTH),
        ("llama-3.1-8b nvidia-l4 TP1", {"given": 2000, "tpot_p95_ms": 400, "ttft_p95_ms": 500},
         COMPUTE),
        ("llama-3.2-1b nvidia-l4 TP8", {"given": 300, "tpot_p95_ms": 20, "ttft_p95_ms": 9000},
         NETWORK),
        ("llama-3.1-8b nvidia-h100-80gb TP1", {"ttft_p95_ms": 150, "made": 20}, QUEUE),
    ],
)  # fmt: skip
def test_the_bound_is_what_the_next_larger_batch_runs_into(candidate: str, changes, name: str):
    found = of(*candidate.split(), **changes)
    assert found.name == name, found.reason


def test_the_shares_of_a_step_are_all_of_it():
    found = of("llama-3.3-70b", "nvidia-h100-80gb", "TP4")
    assert sum(found.shares.values()) == pytest.approx(1)
    assert found.shares[NETWORK] > 0
    assert of("llama-3.1-8b", "nvidia-h100-80gb", "TP1").shares[NETWORK] == 0


def test_targets_that_no_batch_meets_are_bound_at_the_first_batch():
    found = of("llama-3.1-8b", "nvidia-l4", "TP1", tpot_p95_ms=5)
    assert found.batch == BATCHES[0]
    assert found.name == BANDWIDTH
    assert found.reason.startswith("a batch of 1 takes ")
