"""A worker process for laboratory runs: `python -m bench.laboratory.worker FOLDER`.

It reads jobs as JSON lines from standard input and writes results as JSON lines to standard output.
At the end of the input, it stops everything. Two workers use two cores.
"""

import asyncio
import json
import signal
import sys
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path

import uvloop

from bench.laboratory.lockstep import Lockstep
from bench.laboratory.policies import Policy, policies
from bench.laboratory.replicas import Replicas
from bench.laboratory.rig import Rig
from bench.laboratory.rows import Row, row_of
from simulator.engine import logs
from simulator.replays.workloads import MODEL, StageSpec, Workload, workloads


@dataclass(frozen=True)
class Job:
    """A run of a workload with a policy, from cold replicas."""

    workload: str
    policy: str
    seed: int
    is_quick: bool = False
    config: str | None = None
    """Picker configuration that replaces the policy's, for experiments."""
    stages: tuple[StageSpec, ...] | None = None
    """Stages that replace the workload's."""

    def line(self) -> str:
        """Return the job as a JSON line."""
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, line: str) -> "Job":
        """Return the job from a JSON line."""
        fields = json.loads(line)
        stages = fields.pop("stages", None)
        return cls(**fields, stages=tuple(StageSpec(**s) for s in stages) if stages else None)


def do(rig: Rig, job: Job) -> list[Row]:
    """Run a job and return its rows."""
    workload = workloads()[job.workload]
    named = {policy.name: policy for policy in policies(workload.facts)}
    policy = Policy(job.policy, job.config) if job.config is not None else named[job.policy]
    try:
        return uvloop.run(_stages(rig, workload, policy, job))
    finally:
        rig.end_run()


async def _stages(rig: Rig, workload: Workload, policy: Policy, job: Job) -> list[Row]:
    names = [f"replica-{number}" for number in range(len(workload.replicas))]
    addresses = [rig.address(number) for number in range(len(names))]
    rows: list[Row] = []
    async with Replicas(workload.replicas, names, addresses, MODEL) as replicas:
        await asyncio.to_thread(rig.replicas, names)
        url = await asyncio.to_thread(rig.gateway, policy, len(names))
        lab = Lockstep(replicas, url, with_picker=policy.picker is not None)
        for spec in _specs(workload, job):
            trace = workload.make(spec, job.seed)
            before = replicas.cache_tokens()
            stage = await lab.replay(trace)
            after = replicas.cache_tokens()
            if not spec.is_warm_up:
                cached = (after[0] - before[0], after[1] - before[1])
                rows.append(row_of(workload, policy, job.seed, spec, trace, stage, cached))
    return rows


def _specs(workload: Workload, job: Job) -> tuple[StageSpec, ...]:
    if job.stages is not None:
        return job.stages
    return workload.quick_stages if job.is_quick else workload.stages


def _leave(*_: object) -> None:
    """Exit like a finished worker, after stopping everything that it started."""
    sys.exit(0)


def main() -> None:
    """Run jobs until there are no more."""
    signal.signal(signal.SIGTERM, _leave)
    out = sys.stdout  # for answers alone: a line of a log there would be taken for one
    sys.stdout = sys.stderr
    logs.set_up()
    with Rig(Path(sys.argv[1])) as rig:
        for line in sys.stdin:
            try:
                answer = {"rows": do(rig, Job.of(line))}
            except Exception as error:  # noqa: BLE001  # one failed run must not end the others
                traceback.print_exc()
                answer = {"error": f"{type(error).__name__}: {error}"}
            out.write(json.dumps(answer) + "\n")
            out.flush()


if __name__ == "__main__":
    main()
