"""Batches with an engine of their own: a job in a queue, an engine and a worker in its pod."""

import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.platform.batch.rig import CHAT, chat, client
from tests.platform.batch.test_batches import answered
from tests.platform.faults.rig import Platform
from tests.running.batch.world import jsonl, over, read, submit
from tests.running.programs import until
from twin.host.paths import REPOSITORY
from twin.wire.kube import JsonObject

# twin/tests/running/agent has the job of an own engine, twin/tests/running/queues its queue and
# set, and test_batches.py what workers send
pytestmark = [pytest.mark.needs_tools, pytest.mark.soak, pytest.mark.timeout(1800)]

EXAMPLE = REPOSITORY / "docs" / "examples" / "batch-engines" / "Pulumi.batch-engines.yaml"
JOBS = "/apis/batch/v1/namespaces/jobs-nightly/jobs"
PODS = "/api/v1/namespaces/jobs-nightly/pods"
SLICES = REPOSITORY / "docs" / "examples" / "batch-slices" / "Pulumi.batch-slices.yaml"
SETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/jobs-nightly/jobsets"
LINES = 600
FEW = 240
LONG = 200
"""Tokens of an answer, so that a lost pod leaves requests to the next one."""


@pytest.fixture(name="platform")
def built(tmp_path):
    with brought_up(tmp_path, EXAMPLE, "{min: 1, max: 1, standby: 0}") as made:
        yield made


@pytest.fixture
def on_slices(tmp_path):
    """A platform whose jobs have slices of four hosts."""
    with brought_up(tmp_path, SLICES, "{min: 1, max: 1}") as made:
        yield made


@contextmanager
def brought_up(folder: Path, example: Path, replicas: str) -> Generator[Platform]:
    made = Platform(folder, example, replicas)
    try:
        made.bring_up()
        yield made
    finally:
        made.close()


def running(platform: Platform) -> list[JsonObject]:
    """Return the pods of jobs that run."""
    return [pod for pod in platform.kube.list(PODS) if pod["status"].get("phase") == "Running"]


def nodes_of_jobs(platform: Platform, capacity: str = "jobs-spot") -> list[str]:
    """Return the nodes with the chips of jobs."""
    label = "cloud.google.com/compute-class"
    found = platform.kube.list("/api/v1/nodes")
    return [
        node["metadata"]["name"]
        for node in found
        if capacity in node["metadata"]["labels"].get(label, "")
    ]


def test_a_batch_has_an_engine_until_each_request_has_one_answer_through_a_lost_pod(platform):
    api = client(platform.url)
    assert nodes_of_jobs(platform) == []
    batch = submit(api, jsonl([chat(number, max_tokens=LONG) for number in range(FEW)]), CHAT)
    until(lambda: answered(api, batch) >= 0.1 * FEW, 300)
    (pod,) = running(platform)
    containers = pod["status"]["initContainerStatuses"] + pod["status"]["containerStatuses"]
    assert [each["name"] for each in containers] == ["vllm", "batch"]
    first = pod["metadata"]["name"]
    platform.kube.delete(f"{PODS}/{first}")
    until(lambda: first not in [each["metadata"]["name"] for each in running(platform)], 120)
    until(lambda: running(platform), 120)  # another pod takes what the first has left
    assert answered(api, batch) < FEW
    done = over(api, batch, 300)
    assert done.status == "completed"
    assert done.request_counts.to_dict() == {"total": FEW, "completed": FEW, "failed": 0}
    output = read(api, done.output_file_id)
    assert [each["custom_id"] for each in output] == [f"r{number}" for number in range(FEW)]
    # the chips are free again
    until(lambda: platform.kube.list(JOBS) == [], 60)
    until(lambda: nodes_of_jobs(platform) == [], 300)


@pytest.mark.soak  # twin/tests/running/queues has sets without engines, the test above one host
def test_a_batch_on_slices_is_answered_by_a_set_that_starts_again_without_a_host(
    on_slices, record_property
):
    platform = on_slices
    model = "llama-3.1-70b"
    api = client(platform.url)
    began = time.monotonic()
    lines = [chat(number, max_tokens=LONG, model=model) for number in range(LINES)]
    batch = submit(api, jsonl(lines), CHAT)
    until(lambda: answered(api, batch) >= 0.1 * LINES, 600)
    pods = running(platform)
    assert len({pod["spec"]["nodeName"] for pod in pods}) == 4
    (worker, *_) = [pod for pod in pods if "-workers-" in pod["metadata"]["name"]]
    # without time for its preStop hook, which waits for a pause between requests
    platform.kube.delete(f"{PODS}/{worker['metadata']['name']}", {"gracePeriodSeconds": 1})
    gone = {pod["metadata"]["uid"] for pod in pods}
    until(lambda: not gone & {pod["metadata"]["uid"] for pod in running(platform)}, 180)
    until(lambda: len(running(platform)) == 4, 300)
    assert answered(api, batch) < LINES
    done = over(api, batch, 600)
    assert done.status == "completed"
    output = read(api, done.output_file_id)
    assert [each["custom_id"] for each in output] == [f"r{number}" for number in range(LINES)]
    until(lambda: platform.kube.list(SETS) == [] and platform.kube.list(PODS) == [], 120)
    until(lambda: nodes_of_jobs(platform, "jobs-slices") == [], 300)
    record_property(
        "figures", f"{LINES} requests on four hosts in {time.monotonic() - began:.0f} s"
    )
