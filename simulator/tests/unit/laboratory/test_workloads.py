"""Workloads are the ones that were promised, the same for every policy."""

import pytest

from simulator.laboratory.session import jobs_of
from simulator.laboratory.workloads import ADAPTERS, StageSpec, workloads


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


def test_every_policy_runs_every_workload_with_every_seed():
    jobs = jobs_of(workloads().values(), None, is_quick=False)
    assert len({(j.workload, j.policy, j.seed) for j in jobs}) == len(jobs)
    assert sum(j.workload == "lora" for j in jobs) == 10
    assert {j.policy for j in jobs if j.workload == "shared_prefix"} == {
        "round_robin", "random", "least_request", "picker_defaults", "shipped",
    }  # fmt: skip


def test_some_policies_and_a_quick_run_are_fewer_jobs():
    jobs = jobs_of([workloads()["lora"]], ["shipped"], is_quick=True)
    assert [(j.policy, j.seed, j.is_quick) for j in jobs] == [("shipped", 1, True)]


def test_the_pickers_policies_climb_the_ladder_with_more_seeds():
    jobs = jobs_of([workloads()["shared_prefix"]], None, is_quick=False)
    seeds = {
        name: sorted(j.seed for j in jobs if j.policy == name) for name in ("shipped", "random")
    }
    assert seeds == {"shipped": [*range(1, 9)], "random": [1]}
    more = next(job for job in jobs if job.seed == 2)
    assert [stage.rate for stage in more.stages or ()] == [15, 3, 10, 15, 20, 30]
    quick = jobs_of([workloads()["shared_prefix"]], ["shipped"], is_quick=True)
    assert [job.seed for job in quick] == [1]
