"""Which runs a session has: every policy, workload and seed, or some of them."""

from bench.laboratory.session import jobs_of
from simulator.replays.workloads import workloads


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
