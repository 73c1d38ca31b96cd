"""Runs of workloads behind the real Envoy and picker, in lockstep with simulated engines."""

import asyncio
import tempfile
from pathlib import Path

import uvloop

from bench.laboratory.computed import Job, known
from bench.laboratory.lockstep import Lockstep
from bench.laboratory.replicas import Replicas
from bench.laboratory.rig import Rig
from bench.laboratory.rows import Row, row_of
from simulator.replays.workloads import MODEL


def do(job: Job) -> list[Row]:
    """Run a job and return the rows of its measured stages.

    Raises:
        RigError: a part did not start.
        StuckError: a part makes no progress.
    """
    with (
        tempfile.TemporaryDirectory(prefix="lab-", ignore_cleanup_errors=True) as folder,
        Rig(Path(folder)) as rig,
    ):
        try:
            return uvloop.run(_stages(rig, job))
        finally:
            rig.end_run()


async def _stages(rig: Rig, job: Job) -> list[Row]:
    workload = known()[job.workload]
    names = [f"replica-{number}" for number in range(len(workload.replicas))]
    addresses = [rig.address(number) for number in range(len(names))]
    rows: list[Row] = []
    async with Replicas(workload.replicas, names, addresses, MODEL) as replicas:
        await asyncio.to_thread(rig.replicas, names)
        url = await asyncio.to_thread(rig.gateway, job.policy, len(names))
        lab = Lockstep(replicas, url, with_picker=job.policy.picker is not None)
        for spec in job.stages:
            trace = workload.make(spec, job.seed)
            before = replicas.cache_tokens()
            report = await lab.replay(trace)
            after = replicas.cache_tokens()
            if not spec.is_warm_up:
                asked, found = (now - then for now, then in zip(after, before, strict=True))
                hits = found / asked if asked else None
                rows.append(
                    row_of(workload, job.policy, job.seed, spec, report, hits, trace.digest)
                )
    return rows
