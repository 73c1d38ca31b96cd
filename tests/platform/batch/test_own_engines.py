"""Batches with an engine of their own: a job in a queue, an engine and a worker in its pod."""

import pytest

from tests.platform.batch.rig import CHAT, chat, client
from tests.platform.batch.test_batches import answered
from tests.platform.faults.rig import Platform
from tests.running.batch.world import jsonl, over, read, submit
from tests.running.stream.world import until
from twin.host.paths import REPOSITORY
from twin.wire.kube import JsonObject

pytestmark = [pytest.mark.needs_tools, pytest.mark.timeout(1800)]

EXAMPLE = REPOSITORY / "docs" / "examples" / "batch-engines" / "Pulumi.batch-engines.yaml"
JOBS = "/apis/batch/v1/namespaces/jobs-nightly/jobs"
PODS = "/api/v1/namespaces/jobs-nightly/pods"
LINES = 600
LONG = 200
"""Tokens of an answer, so that a lost pod leaves requests to the next one."""


@pytest.fixture(name="platform")
def built(tmp_path):
    made = Platform(tmp_path, EXAMPLE, "{min: 1, max: 1, standby: 0}")
    try:
        made.bring_up()
        yield made
    finally:
        made.close()


def running(platform: Platform) -> list[JsonObject]:
    """Return the pods of jobs that run."""
    return [pod for pod in platform.kube.list(PODS) if pod["status"].get("phase") == "Running"]


def nodes_of_jobs(platform: Platform) -> list[str]:
    """Return the nodes with the chips of jobs."""
    label = "cloud.google.com/compute-class"
    found = platform.kube.list("/api/v1/nodes")
    return [
        node["metadata"]["name"]
        for node in found
        if "jobs-spot" in node["metadata"]["labels"].get(label, "")
    ]


def test_a_batch_has_an_engine_until_each_request_has_one_answer_through_a_lost_pod(platform):
    api = client(platform.url)
    assert nodes_of_jobs(platform) == []
    batch = submit(api, jsonl([chat(number, max_tokens=LONG) for number in range(LINES)]), CHAT)
    until(lambda: answered(api, batch) >= 0.1 * LINES, 300)
    (pod,) = running(platform)
    containers = pod["status"]["initContainerStatuses"] + pod["status"]["containerStatuses"]
    assert [each["name"] for each in containers] == ["vllm", "batch"]
    first = pod["metadata"]["name"]
    platform.kube.delete(f"{PODS}/{first}")
    until(lambda: first not in [each["metadata"]["name"] for each in running(platform)], 120)
    until(lambda: running(platform), 120)  # another pod takes what the first has left
    assert answered(api, batch) < LINES
    done = over(api, batch, 300)
    assert done.status == "completed"
    assert done.request_counts.to_dict() == {"total": LINES, "completed": LINES, "failed": 0}
    output = read(api, done.output_file_id)
    assert [each["custom_id"] for each in output] == [f"r{number}" for number in range(LINES)]
    # the chips are free again
    until(lambda: platform.kube.list(JOBS) == [], 60)
    until(lambda: nodes_of_jobs(platform) == [], 300)
