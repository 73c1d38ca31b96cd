"""Own engines: one job for each batch, which its worker works through alone."""

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.unit.batch.memory import Memory
from tests.unit.batch.test_keeper import PATH, SETTINGS, USED, add, line, now_of
from tests.unit.batch.test_worker import Answering
from workloads.batch.engines import Engines, job_name
from workloads.batch.keeper import Keeper
from workloads.batch.metrics import ServiceMetrics, WorkerMetrics
from workloads.batch.records import Shard, add_shard, now, shards_of
from workloads.batch.settings import START_ANNOTATION, Model, SettingsError, read_settings
from workloads.batch.validation import Bounds, check
from workloads.batch.worker import Worker
from workloads.common.cluster import ClusterError

TEMPLATE: dict[str, Any] = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"annotations": {START_ANNOTATION: "5400"}, "namespace": "jobs-nightly"},
    "spec": {"template": {"spec": {"containers": [{"args": ["work", "f"], "name": "batch"}]}}},
}
MODELS = {"llama": Model((PATH,), engine="llama"), "other": Model((PATH,))}
OWN = replace(SETTINGS, models=MODELS, engines={"llama": TEMPLATE})
BACKLOG = "gke_inference_batch_backlog"


class Jobs:
    """The jobs of a namespace."""

    def __init__(self, kind: str = "jobs") -> None:
        self.kind = kind
        self.found: dict[str, Any] = {}
        self.pods: list[dict[str, Any]] = []

    async def create(self, kind: str, obj: dict[str, Any]) -> None:
        assert kind == self.kind
        self.found.setdefault(obj["metadata"]["name"], obj)

    async def get(self, name: str, kind: str) -> dict[str, Any] | None:
        assert kind == self.kind
        return self.found.get(name)

    async def pods_of(self, job: str, kind: str) -> list[dict[str, Any]]:
        assert job in self.found
        assert kind == self.kind
        return self.pods

    async def delete(self, kind: str, name: str) -> None:
        assert kind == self.kind
        self.found.pop(name, None)


async def look(bucket: Memory, jobs: Jobs) -> ServiceMetrics:
    metrics, stop = ServiceMetrics(), asyncio.Event()
    engines = Engines(OWN.engines, {"llama": jobs})
    keeping = asyncio.create_task(Keeper(OWN, bucket, metrics, engines).run(stop))
    await bucket.rest()
    stop.set()
    await keeping
    return metrics


async def work(bucket: Memory, only: str | None, asking: Answering, seconds: float = 5) -> bool:
    """Return whether a worker ends by itself because its batch needs none."""
    stop = asyncio.Event()
    settings = replace(OWN, keep_seconds=0.0)
    worker = Worker(settings, bucket, asking, WorkerMetrics(), only)
    asyncio.get_running_loop().call_later(seconds, stop.set)
    return await worker.run(stop)


def test_a_batch_of_an_own_engine_has_one_job_until_it_is_over() -> None:
    async def run() -> None:
        bucket, jobs = Memory(), Jobs()
        batch = await add(bucket, 3)
        metrics = await look(bucket, jobs)
        ((name, job),) = jobs.found.items()
        assert name == job_name(batch["id"])
        (container,) = job["spec"]["template"]["spec"]["containers"]
        assert container["args"] == ["work", "f", batch["id"]]
        assert "args" in TEMPLATE["spec"]["template"]["spec"]["containers"][0]
        # workers of the pool neither scale for it nor take it
        assert f"{BACKLOG} 0.0" in metrics.text().decode()
        of_pool = Answering()
        assert not await work(bucket, None, of_pool, 0.1)
        assert of_pool.asked == 0
        assert await work(bucket, batch["id"], Answering())
        await look(bucket, jobs)
        assert now_of(bucket, batch)["status"] == "completed"
        assert jobs.found == {}

    asyncio.run(run())


def test_the_worker_of_an_engine_takes_no_other_batch_and_reports_when_it_is_stopped() -> None:
    async def run() -> None:
        bucket, jobs = Memory(), Jobs()
        await add(bucket)
        mine = await add(bucket)
        await look(bucket, jobs)
        asking = Answering(lambda: True)
        assert not await work(bucket, mine["id"], asking, 0.1)
        assert asking.asked >= 1
        (held,) = await shards_of(bucket, mine["id"])
        assert held.shard.state == "open"
        asking = Answering()
        assert await work(bucket, mine["id"], asking)
        assert asking.asked == 1

    asyncio.run(run())


def test_a_batch_whose_job_fails_fails_with_the_reason_and_keeps_its_answers() -> None:
    async def run() -> None:
        bucket, jobs = Memory(), Jobs()
        batch = await add(bucket, 3)
        await look(bucket, jobs)
        (job,) = jobs.found.values()
        condition = {"reason": "BackoffLimitExceeded", "status": "True", "type": "Failed"}
        job["status"] = {"conditions": [condition]}
        await look(bucket, jobs)
        over = now_of(bucket, batch)
        assert over["status"] == "failed"
        (error,) = over["errors"]["data"]
        assert error["code"] == "engine_failed"
        assert error["message"].endswith("the job of its engine failed: BackoffLimitExceeded.")
        assert jobs.found == {}

    asyncio.run(run())


def test_a_file_has_requests_for_one_engine_only() -> None:
    bounds = Bounds(PATH, MODELS, max_lines=9, shard_lines=9, shard_bytes=9**9)
    found = check([line(0), line(1)], bounds)
    assert (found.errors, found.engine) == ([], "llama")
    other = json.loads(line(2))
    other["body"]["model"] = "other"
    found = check([line(0), json.dumps(other).encode()], bounds)
    (error,) = found.errors
    assert (error["code"], error["line"]) == ("mixed_engines", 2)
    assert check([json.dumps(other).encode()], bounds).engine == ""


def test_an_engine_that_a_stack_has_no_more_fails_its_batches() -> None:
    async def run() -> None:
        bucket = Memory()
        counts = {"total": 1, "completed": 0, "failed": 0}
        batch = await add(bucket, status="in_progress", engine="gone", request_counts=counts)
        await add_shard(bucket, batch["id"], Shard(0, 0, len(line(0)), 1, 1))
        await look(bucket, Jobs())
        over = now_of(bucket, batch)
        assert over["status"] == "failed"
        (error,) = over["errors"]["data"]
        assert error["message"].endswith("the platform has no own engine for gone any more.")

    asyncio.run(run())


def pod(**conditions: tuple[str, float]) -> dict[str, Any]:
    """Return a pod whose engine restarts, with conditions and how many seconds they have lasted."""
    waits = {"waiting": {"reason": "CrashLoopBackOff"}}
    return {
        "metadata": {},
        "status": {
            "phase": "Pending",
            "conditions": [
                {
                    "type": kind,
                    "status": status,
                    "lastTransitionTime": datetime.fromtimestamp(now() - age, UTC).isoformat(),
                }
                for kind, (status, age) in conditions.items()
            ],
            "initContainerStatuses": [{"name": "vllm", "ready": False, "state": waits}],
        },
    }


LONG = 5400 + 60


@pytest.mark.parametrize(
    ("conditions", "status"),
    [
        ({"PodScheduled": ("True", LONG), "Ready": ("False", LONG)}, "failed"),
        ({"PodScheduled": ("True", LONG)}, "failed"),
        ({"PodScheduled": ("False", LONG)}, "in_progress"),  # there is no node yet
        ({"PodScheduled": ("True", 60), "Ready": ("False", 60)}, "in_progress"),
        ({"PodScheduled": ("True", LONG), "Ready": ("False", 60)}, "in_progress"),  # it restarts
        ({"PodScheduled": ("True", LONG), "Ready": ("True", LONG)}, "in_progress"),
    ],
)
def test_an_engine_that_does_not_start_gives_its_chips_back(
    conditions: dict[str, tuple[str, float]], status: str
) -> None:
    async def run() -> None:
        bucket, jobs = Memory(), Jobs()
        batch = await add(bucket)
        await look(bucket, jobs)
        (job,) = jobs.found.values()
        job["status"] = {"active": 1, "ready": 0}
        jobs.pods = [pod(**conditions)]
        await look(bucket, jobs)
        found = now_of(bucket, batch)
        assert found["status"] == status
        assert len(jobs.found) == (status == "in_progress")
        if status == "failed":
            (error,) = found["errors"]["data"]
            assert error["code"] == "engine_failed"
            why = "its engine was not ready for 5400 s: vllm, CrashLoopBackOff."
            assert error["message"].endswith(why)

    asyncio.run(run())


SET = {
    "apiVersion": "jobset.x-k8s.io/v1alpha2",
    "kind": "JobSet",
    "metadata": TEMPLATE["metadata"],
    "spec": {
        "replicatedJobs": [
            {"name": "leader", "template": {"spec": TEMPLATE["spec"]}},
            {"name": "workers", "template": {"spec": {"template": {"spec": {"containers": []}}}}},
        ]
    },
}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"replicatedJobsStatus": [{"active": 1, "ready": 1}, {"active": 3, "ready": 2}]}, "late"),
        ({"replicatedJobsStatus": [{"active": 1, "ready": 1}, {"active": 3, "ready": 3}]}, None),
        ({"conditions": [{"status": "True", "type": "Completed"}]}, None),
        (
            {"conditions": [{"reason": "ReachedMaxRestarts", "status": "True", "type": "Failed"}]},
            "ReachedMaxRestarts",
        ),
    ],
)
def test_a_set_of_jobs_is_over_and_late_as_a_job_is(
    status: dict[str, Any], expected: str | None
) -> None:
    async def run() -> None:
        jobs = Jobs("jobsets")
        engines = Engines({"llama": SET}, {"llama": jobs})
        batch: Any = {"engine": "llama", "id": "batch_1"}
        assert await engines.ensure(batch) is None
        (made,) = jobs.found.values()
        leader = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
        assert leader["containers"][0]["args"] == ["work", "f", "batch_1"]
        made["status"] = status
        jobs.pods = [pod(PodScheduled=("True", LONG), Ready=("False", LONG))]
        reasons = {
            None: None,
            "late": "its engine was not ready for 5400 s: vllm, CrashLoopBackOff",
        }
        failed = f"the job of its engine failed: {expected}"
        assert await engines.ensure(batch) == reasons.get(expected, failed)
        await engines.end(batch)
        assert jobs.found == {}

    asyncio.run(run())


def test_a_batch_whose_job_the_cluster_refuses_still_uses_up_its_window() -> None:
    class Refusing(Jobs):
        async def create(self, kind: str, obj: dict[str, Any]) -> None:
            raise ClusterError(f"POST {kind}: HTTP 500 for {obj['metadata']['name']}")

    async def run() -> None:
        bucket = Memory()
        batch = await add(bucket, created_at=now() - 1800)
        text = (await look(bucket, Refusing())).text().decode()
        (used,) = [each for each in text.splitlines() if each.startswith(USED)]
        assert float(used.rpartition(" ")[2]) > 0.3
        assert now_of(bucket, batch)["status"] == "in_progress"

    asyncio.run(run())


@pytest.mark.parametrize("given", [None, "soon", "0"])
def test_a_job_that_does_not_say_how_long_its_engine_may_start_is_refused(
    tmp_path: Path, given: str | None
) -> None:
    annotations = {} if given is None else {START_ANNOTATION: given}
    job = {**TEMPLATE, "metadata": {"annotations": annotations, "namespace": "jobs-nightly"}}
    settings = {"bucket": "b", "endpoint": "http://g", "engines": {"llama": job}}
    file = tmp_path / "settings.json"
    file.write_text(json.dumps({**settings, "models": {"llama": {"endpoints": [PATH]}}}))
    rule = rf"\[{START_ANNOTATION}\]: must be seconds, 1 or more, got {given!r}"
    with pytest.raises(SettingsError, match=rule):
        read_settings(file)
