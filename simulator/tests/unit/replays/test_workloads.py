"""Workloads are the ones that were promised, the same for every policy."""

import pytest

from simulator.replays.workloads import ADAPTERS, StageSpec, workloads


def test_the_ladder_is_the_published_one():
    ladder = workloads()["shared_prefix"]
    rates = [stage.rate for stage in ladder.stages if not stage.is_warm_up]
    assert rates == [3, 10, 15, 20, 30, 40, 60]
    assert len(ladder.replicas) == 8
    assert {(r.accelerator, r.chips, r.model) for r in ladder.replicas} == {
        ("nvidia-h100-80gb", 2, "Qwen/Qwen3-32B")
    }
    ask = ladder.make(StageSpec(3, 1), 1).asks[0]
    assert len(ask.prompt.prefix) == 4 * 6000
    assert len(ask.prompt.tail) == 4 * 1200
    assert ask.output_tokens == 1000


def test_twenty_adapters_share_few_slots():
    lora = workloads()["lora"]
    assert len(ADAPTERS) == 20
    assert "--max-loras=4" in lora.replicas[0].flags
    assert lora.facts.has_adapters


def test_unequal_hardware_is_tpu_and_gpu_in_one_pool():
    kinds = {replica.accelerator for replica in workloads()["unequal_hardware"].replicas}
    assert kinds == {"tpu-v6e-slice", "nvidia-l4"}


@pytest.mark.parametrize("name", list(workloads()))
def test_every_workload_has_a_price_and_the_same_trace_for_the_same_seed(name):
    workload = workloads()[name]
    assert all(replica.usd_per_hour > 0 for replica in workload.replicas)
    short = StageSpec(workload.quick_stages[-1].rate, 1.0)
    assert workload.make(short, 1).digest == workload.make(short, 1).digest
    assert workload.make(short, 1).digest != workload.make(short, 2).digest
