"""Preparation of a pod's claims by the kubelet, before its containers start."""

from typing import Any

import pytest

from twin.cluster.devices.preparing import Prepared, PreparingError, prepared
from twin.wire.kube import KubeError

CLAIM = "/apis/resource.k8s.io/v1/namespaces/models/resourceclaims/p-accelerator-x"
SLICE = "/apis/resource.k8s.io/v1/resourceslices/n-tpu.google.com"
NODE = {"metadata": {"name": "n", "labels": {"cloud.google.com/gke-accelerator-count": "4"}}}


class Kube:
    """Answers from a dictionary."""

    def __init__(self, objects: dict[str, Any]) -> None:
        self._objects = objects

    def get(self, path: str) -> Any:
        if path not in self._objects:
            raise KubeError(404, "NotFound", f"{path} not found", {})
        return self._objects[path]


def pod(**spec: Any) -> dict[str, Any]:
    statuses = [{"name": "accelerator", "resourceClaimName": "p-accelerator-x"}]
    return {
        "metadata": {"name": "p", "namespace": "models", "uid": "u"},
        "spec": spec,
        "status": {"resourceClaimStatuses": statuses},
    }


def claiming() -> dict[str, Any]:
    claim = {"name": "accelerator", "resourceClaimTemplateName": "t"}
    return pod(resourceClaims=[claim])


def claim(count: int, user: str = "u") -> dict[str, Any]:
    results = [{"driver": "tpu.google.com", "device": str(at)} for at in range(count)]
    devices = {"devices": {"results": results}}
    return {"status": {"allocation": devices, "reservedFor": [{"uid": user}]}}


def test_a_pod_has_the_devices_of_its_claim():
    kube: Any = Kube({CLAIM: claim(4), SLICE: {}})
    assert prepared(kube, claiming(), NODE) == Prepared(chips=("tpu", 4))


def test_a_pod_without_claims_has_what_its_node_has():
    kube: Any = Kube({})
    assert prepared(kube, pod(), NODE) == Prepared()


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        ({}, "fetch ResourceClaim p-accelerator-x"),
        ({CLAIM: {"status": {}}}, "pod p is not allowed to use ResourceClaim p-accelerator-x"),
        ({CLAIM: claim(4, "other"), SLICE: {}}, "pod p is not allowed to use ResourceClaim"),
        ({CLAIM: claim(4)}, "DRA driver tpu.google.com is not registered"),
        ({CLAIM: claim(2), SLICE: {}}, "you must request all 4 chips on this node together"),
    ],
    ids=["no claim", "not allocated", "of another pod", "no driver", "part of a TPU node"],
)
def test_a_claim_that_cannot_be_prepared_keeps_its_pod_from_starting(objects, message):
    kube: Any = Kube(objects)
    with pytest.raises(PreparingError, match=message):
        prepared(kube, claiming(), NODE)
