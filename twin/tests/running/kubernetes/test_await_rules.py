"""Waiting for objects, by the rules of the official provider: one case for each.

Every docstring ends in the place of the rule in pulumi/pulumi-kubernetes v4.32.0, read 2026-11-22.
The rules of workloads, which need no cluster, are in twin/tests/unit/kubernetes/test_workloads.py.
"""

import threading
import time

import grpc
import pytest

from twin.wire.kube import KubeError

pytestmark = [pytest.mark.needs_tools, pytest.mark.timeout(180)]
LABELS = {"app": "server"}
NO_PODS = "Service does not target any Pods"


def service(namespace, *, annotations=None, **spec):
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "front",
            "namespace": namespace,
            "annotations": annotations or {},
        },
        "spec": {"selector": LABELS, "ports": [{"port": 80}], **spec},
    }


def pod(plane, namespace, *, ready):
    """Make a pod with an address, as an agent would report it."""
    plane.kube.post(
        f"/api/v1/namespaces/{namespace}/pods",
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "one", "labels": LABELS},
            "spec": {"containers": [{"name": "main", "image": "example.com/main:1"}]},
        },
    )
    report(plane, namespace, ready=ready)


def report(plane, namespace, *, ready):
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    address = {"podIP": "127.122.1.2", "podIPs": [{"ip": "127.122.1.2"}]}
    plane.kube.patch(
        f"/api/v1/namespaces/{namespace}/pods/one/status",
        {"status": {"phase": "Running", "conditions": [condition], **address}},
    )


def starting(client, plane, namespace):
    """Make a Service, nobody waits for it, whose Endpoints have a pod that is not ready."""
    pod(plane, namespace, ready=False)
    client.create(service(namespace, annotations={"pulumi.com/skipAwait": "true"}))
    end = time.monotonic() + 60
    while True:
        try:
            if "notReadyAddresses" in endpoints(plane, namespace)[0]:
                return
        except KubeError:
            pass  # not written yet
        assert time.monotonic() < end, "no Endpoints were written"
        time.sleep(0.1)


def endpoints(plane, namespace):
    return plane.kube.get(f"/api/v1/namespaces/{namespace}/endpoints/front")["subsets"]


def test_a_service_whose_pods_are_ready_is_ready(client, plane, namespace):
    """Source: provider/pkg/await/service.go, checkAndLogStatus."""
    pod(plane, namespace, ready=True)
    client.create(service(namespace))
    assert [item["ip"] for item in endpoints(plane, namespace)[0]["addresses"]] == ["10.122.1.2"]


def test_a_service_waits_for_its_pods_that_are_not_ready(client, plane, namespace):
    """Source: provider/pkg/await/service.go, endpointsPending."""
    starting(client, plane, namespace)
    with pytest.raises(grpc.RpcError, match=NO_PODS):
        client.update(service(namespace), timeout=2)
    threading.Timer(1.0, report, (plane, namespace), {"ready": True}).start()
    client.update(service(namespace))
    assert "notReadyAddresses" not in endpoints(plane, namespace)[0]


def test_a_service_without_any_pod_is_ready(client, namespace):
    """Source: provider/pkg/await/service.go, checkAndLogStatus (only pending ones count)."""
    assert client.create(service(namespace), timeout=20)[0] == f"{namespace}/front"


@pytest.mark.parametrize(
    "spec", [{"selector": None}, {"clusterIP": "None"}, {"type": "ExternalName"}]
)
def test_a_service_that_leads_to_no_pods_of_its_own_is_not_waited_for(
    client, plane, namespace, spec
):
    """Source: provider/pkg/await/service.go, shouldWaitForPods."""
    pod(plane, namespace, ready=False)
    if spec.get("type") == "ExternalName":
        spec = {**spec, "externalName": "example.com"}
    assert client.create(service(namespace, **spec), timeout=1)[0] == f"{namespace}/front"


def test_a_load_balancer_waits_for_its_address(client, namespace):
    """Source: provider/pkg/await/service.go, processServiceEvent."""
    with pytest.raises(grpc.RpcError, match="was not allocated an IP address"):
        client.create(service(namespace, type="LoadBalancer"), timeout=2)


def test_skip_await_counts_before_everything_else(client, plane, namespace):
    """Source: provider/pkg/metadata/overrides.go, ReadyCondition."""
    pod(plane, namespace, ready=False)
    skipped = {"pulumi.com/skipAwait": "true", "pulumi.com/waitFor": "condition=Never"}
    client.create(service(namespace, annotations=skipped), timeout=1)


def test_the_time_out_of_the_resource_counts_before_the_annotation(client, plane, namespace):
    """Source: provider/pkg/metadata/overrides.go, TimeoutDuration."""
    starting(client, plane, namespace)
    wanted = service(namespace, annotations={"pulumi.com/timeoutSeconds": "60"})
    with pytest.raises(grpc.RpcError, match="not ready after 2 s"):
        client.update(wanted, timeout=2)


def test_the_annotation_counts_where_the_resource_has_no_time_out(client, plane, namespace):
    """Source: provider/pkg/metadata/overrides.go, TimeoutDuration."""
    starting(client, plane, namespace)
    wanted = service(namespace, annotations={"pulumi.com/timeoutSeconds": "2"})
    with pytest.raises(grpc.RpcError, match="not ready after 2 s"):
        client.update(wanted, timeout=0)


def claim(namespace, storage_class, **spec):
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "weights", "namespace": namespace},
        "spec": {
            "accessModes": ["ReadOnlyMany"],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": "1Gi"}},
            **spec,
        },
    }


def volume(namespace, storage_class):
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"{namespace}-weights"},
        "spec": {
            "accessModes": ["ReadOnlyMany"],
            "capacity": {"storage": "1Gi"},
            "claimRef": {"name": "weights", "namespace": namespace},
            "csi": {"driver": "pd.csi.storage.gke.io", "volumeHandle": "x"},
            "storageClassName": storage_class,
        },
    }


@pytest.fixture
def late_class(plane):
    """A storage class whose volumes bind with the first pod."""
    plane.kube.apply(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "late"},
            "provisioner": "example.com/none",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
        manager="test",
    )
    return "late"


def test_a_claim_that_binds_with_its_first_pod_is_ready_while_it_is_pending(
    client, namespace, late_class
):
    """Source: provider/pkg/await/awaiters.go, untilCoreV1PersistentVolumeClaimReady."""
    _, outputs = client.create(claim(namespace, late_class))
    assert outputs["status"]["phase"] == "Pending"


def test_a_claim_with_a_volume_waits_in_vain_for_pending_where_its_class_binds_late(
    client, connect, plane, namespace, late_class
):
    """Source: provider/pkg/await/awaiters.go, untilCoreV1PersistentVolumeClaimReady."""
    adopting = connect(kubeconfig=plane.kubeconfig, upsertExistingObjects="true")
    made = volume(namespace, late_class)
    client.create(made)
    wanted = claim(namespace, late_class, volumeName=made["metadata"]["name"])
    plane.kube.apply(wanted, manager="first")
    path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/weights"
    end = time.monotonic() + 20
    while plane.kube.get(path)["status"].get("phase") != "Bound":
        assert time.monotonic() < end
        time.sleep(0.1)
    wanted["metadata"]["annotations"] = {"pulumi.com/patchFieldManager": "first"}
    with pytest.raises(grpc.RpcError, match="phase is Bound, not Pending"):
        adopting.create(wanted, timeout=1)
    assert adopting.update(wanted, timeout=5)["status"]["phase"] == "Bound"
    plane.kube.delete(path)
    plane.kube.delete(f"/api/v1/persistentvolumes/{made['metadata']['name']}")


def test_a_quota_is_ready_when_its_status_has_its_limits(client, namespace):
    """Source: provider/pkg/await/awaiters.go, untilCoreV1ResourceQuotaInitialized."""
    wanted = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "chips", "namespace": namespace},
        "spec": {"hard": {"pods": "4"}},
    }
    assert client.create(wanted)[1]["status"]["hard"] == {"pods": "4"}
