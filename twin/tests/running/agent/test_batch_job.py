"""The job of a batch's own engine: an engine, then a worker, then an end."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from gke_inference.serving.offline.batch_engine import (
    START_ANNOTATION,
    BatchEngineArgs,
    job_of,
    objects,
    settings,
)
from tests.model_plans import planned
from tests.running.batch.world import BatchProgram, client, line, over, read, submit
from tests.running.programs import until
from twin.cluster.agent.launching.tokens import api_server
from twin.cluster.base.context import ClusterContext
from twin.host import processes
from twin.providers.gcp.effects import gcs
from twin.providers.gcp.iam import endpoint
from twin.providers.kubernetes.manifests.objects import to_object
from twin.tests.running.agent.objects import grant_bucket, node
from twin.tests.running.agent.test_launcher import ARGS
from twin.tests.running.sample import put_weights
from twin.wire.kube import Kube

pytestmark = pytest.mark.needs_tools

V6E: Any = {"accelerator": "tpu-v6e", "provisioning": "spot", "topology": "2x2"}
ENDPOINTS = ["/v1/completions"]
LINES = 400


@pytest.fixture
def storage(context: ClusterContext) -> Iterator[str]:
    """Address of the object storage, which ends even where the service's set-up fails."""
    try:
        endpoint.start(context.paths)
        yield gcs.url(context.paths)
    finally:
        processes.stop(context.paths, endpoint.NAME, gcs.NAME)


@pytest.fixture(name="service")
def served(
    tmp_path: Path,
    context: ClusterContext,
    storage: str,
    kube: Kube,
    namespace: str,
    request: pytest.FixtureRequest,
) -> Iterator[BatchProgram]:
    """The service of batches, with the permissions that the component gives it.

    Its parameter is the tag of the engine's image, if not the real one.
    """
    machine = node(f"{namespace}-tpu", "tpu", 4)  # as large as the machine of the rung
    machine["status"] = {
        key: {**value, "cpu": "180", "memory": "720Gi"} for key, value in machine["status"].items()
    }
    kube.post("/api/v1/nodes", machine)
    for bucket in ("batches", "acme-models", "acme-caches"):
        body = json.dumps({"name": bucket}).encode()
        asked = urllib.request.Request(f"{storage}/storage/v1/b?project=p", body)  # noqa: S310
        try:
            urllib.request.urlopen(asked, timeout=5).close()  # noqa: S310 - of this machine
        except urllib.error.HTTPError as error:
            assert error.code == 409, "made for an earlier test"  # noqa: PT017
        grant_bucket(context.paths, namespace, bucket)
    put_weights(context.paths.gcs / "acme-models" / "llama-3.1-8b")
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    for name in ("batch", "batch-llama"):
        kube.post(accounts, {"metadata": {"name": name}})
    args = cast(
        "BatchEngineArgs",
        {
            "bucket": "batches",
            "models": {"llama": ENDPOINTS},
            "queue": "chips",
            "requests": 16,
            "server": {
                **ARGS,
                "namespace": namespace,
                "rungs": [V6E],
                "service_account": "batch-llama",
            },
            "service_account": "batch",
            "service_namespace": namespace,
        },
    )
    plan = planned(args["server"])
    for role, obj in objects(args, plan, settings(args, "batches")).items():
        if role != "monitoring":  # this control plane has no kinds of Managed Prometheus
            kube.apply(to_object(obj), manager="test")
    job = job_of(args, plan)
    (beside,) = job["spec"]["template"]["spec"]["initContainers"]
    tag = getattr(request, "param", None)
    if tag is not None:
        job["metadata"]["annotations"][START_ANNOTATION] = "3"
        beside["image"] = f"{beside['image'].rpartition(':')[0]}:{tag}"
    token = kube.post(f"{accounts}/batch/token", {"spec": {}})["status"]["token"]
    (tmp_path / "token").write_text(token)
    (tmp_path / "ca.crt").write_bytes((context.paths.pki / "ca.crt").read_bytes())
    made = BatchProgram(
        "serve",
        tmp_path,
        {
            "account": str(tmp_path),
            "bucket": "batches",
            "endpoint": "http://127.0.0.1:9",
            "engines": {"llama": job},
            "keep_seconds": 0.05,
            "lease_seconds": 2.0,
            "models": {"llama": {"endpoints": ENDPOINTS, "engine": "llama"}},
            "poll_seconds": 0.2,
            "shard_lines": 50,
        },
        {
            **api_server(kube),
            "NO_PROXY": "127.0.0.1",
            "STORAGE_EMULATOR_HOST": storage,
        },
    )
    try:
        made.wait()
        yield made
    finally:
        made.kill()
        jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
        for job in kube.list(jobs):  # a failed test leaves one, which would create more pods
            kube.delete(f"{jobs}/{job['metadata']['name']}", {"propagationPolicy": "Background"})
        kube.delete(f"/api/v1/nodes/{machine['metadata']['name']}")


@pytest.mark.parametrize("service", ["v0.99.0"], indirect=True)
def test_a_batch_whose_engine_has_no_image_fails_and_gives_the_chips_back(
    service: BatchProgram, kube: Kube, namespace: str
) -> None:
    api = client(service)
    body = {"model": "llama", "max_tokens": 8, "prompt": "0"}
    batch = submit(api, json.dumps(line(0, body=body)).encode())
    over(api, batch, 60)
    done = api.batches.retrieve(batch.id)
    assert done.status == "failed"
    assert done.errors is not None
    (error,) = done.errors.data or []
    assert error.code == "engine_failed"
    assert (error.message or "").endswith("was not ready for 3 s: vllm, ImagePullBackOff.")
    for kind in (
        f"/apis/batch/v1/namespaces/{namespace}/jobs",
        f"/api/v1/namespaces/{namespace}/pods",
    ):
        until(lambda kind=kind: kube.list(kind) == [], 60)


def test_a_batch_has_a_job_whose_worker_outlives_a_lost_pod_and_ends_with_it(
    service: BatchProgram, kube: Kube, namespace: str
) -> None:
    api = client(service)
    pods, jobs = (
        f"/api/v1/namespaces/{namespace}/pods",
        f"/apis/batch/v1/namespaces/{namespace}/jobs",
    )
    body = {"model": "llama", "max_tokens": 8}
    lines: list[Any] = [line(at, body={**body, "prompt": str(at)}) for at in range(LINES)]
    batch = submit(api, b"".join(json.dumps(each).encode() + b"\n" for each in lines))

    def answered() -> int:
        counts = api.batches.retrieve(batch.id).request_counts
        return 0 if counts is None else counts.completed

    until(lambda: answered() >= 20, 120)
    (pod,) = kube.list(pods)
    found = pod["status"]
    assert [each["name"] for each in found["initContainerStatuses"]] == ["vllm"]
    assert [each["name"] for each in found["containerStatuses"]] == ["batch"]
    kube.delete(f"{pods}/{pod['metadata']['name']}", {"gracePeriodSeconds": 5})
    assert answered() < LINES
    done = over(api, batch, 180)
    assert done.request_counts.to_dict() == {"total": LINES, "completed": LINES, "failed": 0}
    output = read(api, done.output_file_id)
    assert [each["custom_id"] for each in output] == [f"r{at}" for at in range(LINES)]
    until(lambda: kube.list(jobs) == [] and kube.list(pods) == [], 60)
