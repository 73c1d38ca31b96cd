"""Waiting until objects are ready, and saying why they are not."""

import threading
import time
from typing import Any

import grpc
import pytest

from twin.wire import rpc

pytestmark = [pytest.mark.needs_tools, pytest.mark.timeout(120)]
LABELS = {"app": "server"}


def deployment(namespace, *, requests=None, annotations=None, replicas=2):
    container: dict[str, object] = {"name": "main", "image": "example.com/main:1.0"}
    if requests:
        container["resources"] = {"requests": requests, "limits": requests}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "server",
            "namespace": namespace,
            "annotations": annotations or {},
        },
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": LABELS},
            "template": {"metadata": {"labels": LABELS}, "spec": {"containers": [container]}},
        },
    }


def workload(kind, namespace, **spec):
    group = "batch/v1" if kind == "Job" else "apps/v1"
    template = {
        "metadata": {"labels": LABELS},
        "spec": {"containers": [{"name": "main", "image": "example.com/main:1.0"}]},
    }
    obj = {
        "apiVersion": group,
        "kind": kind,
        "metadata": {"name": "server", "namespace": namespace},
        "spec": {"template": template, **spec},
    }
    if kind != "Job":
        obj["spec"]["selector"] = {"matchLabels": LABELS}
    return obj


def claim(namespace, storage_class):
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "weights", "namespace": namespace},
        "spec": {
            "accessModes": ["ReadOnlyMany"],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }


def failure_of(error):
    """Return the engine's record of an object that did not become ready."""
    status_bytes = dict(error.trailing_metadata())["grpc-status-details-bin"]
    from pulumi.runtime.proto import status_pb2  # noqa: PLC0415 - only failures need it

    status = status_pb2.Status.FromString(status_bytes)
    detail = rpc.provider_pb2.ErrorResourceInitFailed()
    status.details[0].Unpack(detail)
    return detail


def test_a_deployment_is_created_when_its_replicas_are_ready(client, namespace, node):
    _, outputs = client.create(deployment(namespace))
    assert outputs["status"]["readyReplicas"] == 2


@pytest.mark.parametrize(
    ("kind", "spec"),
    [("StatefulSet", {"serviceName": "server", "replicas": 1}), ("DaemonSet", {})],
)
def test_other_workloads_are_created_when_their_pods_are_ready(client, namespace, node, kind, spec):
    _, outputs = client.create(workload(kind, namespace, **spec))
    status = outputs["status"]
    assert status.get("readyReplicas") == 1 or status.get("numberAvailable") == 1


def test_a_job_is_created_when_it_is_complete(client, namespace, node):
    job: Any = workload("Job", namespace)
    job["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    _, outputs = client.create(job)
    assert outputs["status"]["succeeded"] == 1


def test_a_deployment_that_fits_nowhere_fails_with_the_words_of_the_scheduler(
    client, namespace, node
):
    with pytest.raises(grpc.RpcError) as failed:
        client.create(deployment(namespace, requests={"google.com/tpu": "8"}), timeout=3)
    details = str(failed.value)
    assert "not ready after 3 s: 0 of 2 replicas ready" in details
    assert "2 x Unschedulable" in details
    assert "google.com/tpu" in details


def test_an_object_that_was_not_ready_in_time_is_recorded_with_its_id_and_the_reason(
    client, namespace, node
):
    with pytest.raises(grpc.RpcError) as failed:
        client.create(deployment(namespace, requests={"google.com/tpu": "8"}), timeout=1)
    detail = failure_of(failed.value)
    assert detail.id == f"{namespace}/server"
    assert rpc.plain(detail.properties)["metadata"]["uid"]
    assert "Unschedulable" in detail.reasons[0] or "controller" in detail.reasons[0]


def test_a_deployment_is_not_waited_for_when_the_annotation_says_so(client, namespace):
    wanted = deployment(namespace, annotations={"pulumi.com/skipAwait": "true"})
    identity, _ = client.create(wanted, timeout=1)
    assert identity == f"{namespace}/server"


def test_a_cancelled_wait_ends_at_once_and_says_so(client, namespace):
    threading.Timer(1.0, client.cancel).start()
    start = time.monotonic()
    with pytest.raises(grpc.RpcError) as failed:
        client.create(deployment(namespace), timeout=50)
    assert "cancelled while waiting" in str(failed.value)
    assert time.monotonic() - start < 10


def test_cancelling_one_provider_does_not_stop_the_waits_of_another(
    client, connect, plane, namespace, node
):
    other = connect(kubeconfig=plane.kubeconfig)
    canceller = threading.Timer(0.05, other.cancel)
    canceller.start()
    _, outputs = client.create(deployment(namespace))
    canceller.join()
    assert outputs["status"]["readyReplicas"] == 2


def test_a_claim_without_a_volume_says_what_it_waits_for(client, namespace):
    with pytest.raises(grpc.RpcError, match="no volume of nothing is bound yet"):
        client.create(claim(namespace, "nothing"), timeout=1)


def test_the_wait_for_annotation_waits_for_a_condition_of_any_object(client, plane, namespace):
    wanted = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "front",
            "namespace": namespace,
            "annotations": {"pulumi.com/waitFor": "condition=Programmed"},
        },
        "spec": {"ports": [{"port": 80}]},
    }

    def program():
        path = f"/api/v1/namespaces/{namespace}/services/front/status"
        condition = {
            "type": "Programmed",
            "status": "True",
            "reason": "Done",
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        plane.kube.patch(path, {"status": {"conditions": [condition]}})

    threading.Timer(1.0, program).start()
    _, outputs = client.create(wanted)
    assert outputs["status"]["conditions"][0]["type"] == "Programmed"
