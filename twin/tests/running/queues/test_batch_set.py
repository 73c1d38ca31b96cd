"""A batch whose engine spans the hosts of a slice: a set of jobs that Kueue admits."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from gke_inference.serving.offline.batch_engine import BatchEngineArgs, job_of, objects, settings
from tests.model_plans import planned
from tests.running.batch.world import BatchProgram, client, line, over, read, submit
from tests.running.programs import until
from twin.cluster.agent.launching.tokens import api_server
from twin.cluster.base.context import ClusterContext
from twin.host import processes
from twin.providers.gcp.effects import gcs
from twin.providers.gcp.iam import endpoint
from twin.providers.kubernetes.manifests.objects import to_object
from twin.tests.running.agent.objects import grant_bucket
from twin.tests.running.agent.test_launcher import ARGS
from twin.tests.running.queues.slices import HOSTS, PODS, QUEUE, RUNG, SETS, SPACE, queue_of_slices
from twin.tests.running.sample import put_weights
from twin.wire.kube import Kube
from twin.world.capacity import World

pytestmark = pytest.mark.needs_tools
ENDPOINTS = ["/v1/completions"]
LINES = 60


@pytest.fixture(name="service")
def served(tmp_path: Path, context: ClusterContext, kube: Kube) -> Iterator[BatchProgram]:
    """The service of batches, with the permissions that the component gives it."""
    World().save(context.paths.capacity_file)
    queue_of_slices(kube)
    storage = gcs.url(context.paths)
    endpoint.start(context.paths)
    for bucket in ("batches", "acme-models", "acme-caches"):
        body = json.dumps({"name": bucket}).encode()
        asked = urllib.request.Request(f"{storage}/storage/v1/b?project=p", body)  # noqa: S310
        try:
            urllib.request.urlopen(asked, timeout=5).close()  # noqa: S310 - of this machine
        except urllib.error.HTTPError as error:
            assert error.code == 409, "made for an earlier test"  # noqa: PT017
        grant_bucket(context.paths, SPACE, bucket, context.spec.project)
    put_weights(context.paths.gcs / "acme-models" / "llama-3.1-8b")
    accounts = f"/api/v1/namespaces/{SPACE}/serviceaccounts"
    for name in ("batch", "batch-llama"):
        kube.post(accounts, {"metadata": {"name": name}})
    server = {**ARGS, "namespace": SPACE, "rungs": [RUNG], "service_account": "batch-llama"}
    given = {
        "bucket": "batches",
        "models": {"llama": ENDPOINTS},
        "queue": QUEUE,
        "requests": 16,
        "server": server,
        "service_account": "batch",
        "service_namespace": SPACE,
    }
    args = cast("BatchEngineArgs", given)
    plan = planned(args["server"])
    for role, obj in objects(args, plan, settings(args, "batches")).items():
        if role != "monitoring":  # this control plane has no kinds of Managed Prometheus
            kube.apply(to_object(obj), manager="test")
    token = kube.post(f"{accounts}/batch/token", {"spec": {}})["status"]["token"]
    (tmp_path / "token").write_text(token)
    (tmp_path / "ca.crt").write_bytes((context.paths.pki / "ca.crt").read_bytes())
    program = {
        "account": str(tmp_path),
        "bucket": "batches",
        "endpoint": "http://127.0.0.1:9",
        "engines": {"llama": job_of(args, plan)},
        "keep_seconds": 0.05,
        "lease_seconds": 2.0,
        "models": {"llama": {"endpoints": ENDPOINTS, "engine": "llama"}},
        "poll_seconds": 0.2,
        "shard_lines": 50,
    }
    environment = {
        **api_server(kube),
        "NO_PROXY": "127.0.0.1",
        "STORAGE_EMULATOR_HOST": storage,
    }
    made = BatchProgram("serve", tmp_path, program, environment)
    try:
        made.wait()
        yield made
    finally:
        made.kill()
        for found in kube.list(SETS):  # a failed test leaves one
            kube.delete(f"{SETS}/{found['metadata']['name']}", {"propagationPolicy": "Background"})
        processes.stop(context.paths, endpoint.NAME, gcs.NAME)


def test_a_batch_is_answered_by_an_engine_on_all_hosts_of_a_slice(
    service: BatchProgram, kube: Kube
) -> None:
    api = client(service)
    body = {"model": "llama", "max_tokens": 8}
    lines: list[Any] = [line(at, body={**body, "prompt": str(at)}) for at in range(LINES)]
    batch = submit(api, b"".join(json.dumps(each).encode() + b"\n" for each in lines))

    placed: dict[str, str] = {}
    containers: dict[str, list[str]] = {}
    restarts: set[int] = set()

    def ended() -> bool:
        restarts.update(each.get("status", {}).get("restarts", 0) for each in kube.list(SETS))
        for pod in kube.list(PODS):
            name = pod["metadata"]["name"]
            containers[name] = [each["name"] for each in pod["spec"]["containers"]]
            if "nodeName" in pod["spec"]:
                placed[name] = pod["spec"]["nodeName"]
        return api.batches.retrieve(batch.id).status == "completed"

    until(ended, 240)
    assert len(placed) == len(set(placed.values())) == HOSTS
    leaders = [name for name in placed if "-leader-" in name]
    assert [containers[name] for name in leaders] == [["batch"]]
    assert {*map(tuple, (containers[name] for name in placed if name not in leaders))} == {
        ("vllm",)
    }
    done = over(api, batch, 180)
    assert done.request_counts.to_dict() == {"total": LINES, "completed": LINES, "failed": 0}
    output = read(api, done.output_file_id)
    assert [each["custom_id"] for each in output] == [f"r{at}" for at in range(LINES)]
    until(lambda: kube.list(SETS) == [] and kube.list(PODS) == [], 120)
    assert restarts == {0}
