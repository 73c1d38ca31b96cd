"""Runs of workloads on computed engines, with the modeled picker and in no real time.

`simulator.engine.compiled` computes the engines; the picker reads their metrics every 50 ms of the
engines' time. The same run gives the same rows on every machine.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from itertools import groupby

from bench.laboratory.policies import Policy, policies
from bench.laboratory.rows import Row, row_of
from simulator.engine.compiled import CompiledCluster, PickerSettings
from simulator.engine.replay import Replay, TraceRequest
from simulator.engine.settings import Deployment
from simulator.replays.modelled_picker import ModelledPicker
from simulator.replays.planning import report_of, requests_of
from simulator.replays.sessions import SessionWorkload, agents, play_sessions
from simulator.replays.workloads import MODEL, StageSpec, Workload, workloads
from simulator.traffic import Report


@dataclass(frozen=True)
class Job:
    """A run of a workload with a policy, from cold replicas."""

    workload: str
    policy: Policy
    seed: int
    stages: tuple[StageSpec, ...]


@lru_cache
def known() -> dict[str, Workload]:
    """Return all workloads of the laboratory by name."""
    return {**workloads(), "agents": agents()}


def jobs_of(
    chosen: Iterable[Workload], names: Iterable[str] | None, *, is_quick: bool
) -> list[Job]:
    """Return the runs of some workloads.

    Args:
        chosen: selected workloads.
        names: names of policies; None for all.
        is_quick: whether to use one seed and short stages.
    """
    wanted = None if names is None else set(names)
    return [
        Job(workload.name, policy, seed, workload.quick_stages if is_quick else workload.stages)
        for workload in chosen
        for seed in (workload.seeds[:1] if is_quick else workload.seeds)
        for policy in policies(workload.facts)
        if wanted is None or policy.name in wanted
    ]


def run_all(jobs: Iterable[Job], workers: int, tell: Callable[[Job, list[Row]], None]) -> list[Row]:
    """Run all jobs and return their rows.

    Args:
        jobs: jobs in order.
        workers: number of processes.
        tell: called after each job, in the order of the jobs.

    Raises:
        ToolError: the program that computes the engines is not built.
    """
    rows: list[Row] = []
    paired = [list(some) for _, some in groupby(jobs, lambda job: (job.workload, job.seed))]
    with ProcessPoolExecutor(workers) as pool:
        for some, results in zip(paired, pool.map(_do_all, paired), strict=True):
            for job, found in zip(some, results, strict=True):
                tell(job, found)
                rows += found
    return rows


def _do_all(jobs: list[Job]) -> list[list[Row]]:
    """Run jobs with the same requests."""
    return [do(job) for job in jobs]


def do(job: Job) -> list[Row]:
    """Run a job and return the rows of its measured stages."""
    workload = known()[job.workload]
    cluster = CompiledCluster(deployments(workload), _route(job), seed=job.seed)
    rows: list[Row] = []
    try:
        for spec in job.stages:
            result, report, digest = _played(cluster, workload, spec, job.seed)
            if not spec.is_warm_up:
                hits = result.prefix_hit_ratio
                rows.append(row_of(workload, job.policy, job.seed, spec, report, hits, digest))
    finally:
        cluster.close()
    return rows


def _route(job: Job) -> str | PickerSettings:
    if job.policy.picker is None:
        return job.policy.route
    return ModelledPicker(job.policy.picker, job.seed).settings


@lru_cache
def _deployment(workload: str, number: int) -> Deployment:
    spec = known()[workload].replicas[number]
    made = spec.deployment("replica", "127.0.0.1", MODEL)
    return replace(made, step_factor=made.step_factor * spec.slowdown)


def deployments(workload: Workload) -> list[Deployment]:
    """Return the engines of a workload, equal ones as one object."""
    return [_deployment(workload.name, workload.replicas.index(each)) for each in workload.replicas]


@lru_cache(maxsize=128)
def _requests(workload: str, spec: StageSpec, seed: int) -> tuple[list[TraceRequest], str]:
    """Return the requests of a stage, and twelve hexadecimal digits of a hash of them."""
    found = requests_of(known()[workload].make(spec, seed), MODEL)
    return found, sha256(repr(found).encode()).hexdigest()[:12]


def _played(
    cluster: CompiledCluster, workload: Workload, spec: StageSpec, seed: int
) -> tuple[Replay, Report, str]:
    if not isinstance(workload, SessionWorkload):
        requests, digest = _requests(workload.name, spec, seed)
        result = cluster.play(requests)
        return result, report_of(result), digest
    begun = workload.begin(spec, seed)
    digest = sha256(repr(begun).encode()).hexdigest()[:12]
    fills = workload.filling_seconds if not spec.is_warm_up else 0.0
    result = play_sessions(cluster, begun, fills + spec.seconds)
    window = report_of(result).between(fills, fills + spec.seconds)
    return result, window.shifted(-fills), digest
