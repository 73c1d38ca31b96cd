"""Capacity buffers: the object that keeps nodes for a model, and what is refused."""

import pytest

from tests.contract.components_k8s.crds import check
from tests.contract.serving.test_model_server import DEPLOYMENT, V6E_8, build, refused

BUFFER = "kubernetes:autoscaling.x-k8s.io/v1beta1:CapacityBuffer"


def test_a_pair_keeps_nodes_for_its_tpu_deployment(recorder, args):
    build(recorder, {**args, "buffer_replicas": 2.0})
    made = recorder.one(BUFFER).inputs
    assert (made["metadata"]["name"], made["metadata"]["namespace"]) == ("llama-8b-tpu", "serving")
    assert made["spec"] == {
        "provisioningStrategy": "buffer.x-k8s.io/active-capacity",
        "replicas": 2,
        "scalableRef": {"apiGroup": "apps", "kind": "Deployment", "name": "llama-8b-tpu"},
    }
    check({key: made[key] for key in ("apiVersion", "kind", "metadata", "spec")})


def test_the_only_deployment_of_a_model_has_the_buffer(recorder, gpu_only):
    build(recorder, {**gpu_only, "buffer_replicas": 1})
    assert recorder.one(BUFFER).inputs["spec"]["scalableRef"]["name"] == "llama-8b-gpu"


def test_no_nodes_are_kept_unless_asked_for(recorder, args):
    build(recorder, args)
    assert recorder.all(BUFFER) == []
    assert len(recorder.all(DEPLOYMENT)) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"buffer_replicas": -1}, "bufferReplicas.*must be 0 to 1000, got -1"),
        (
            {"rungs": [{**V6E_8, "topology": "4x4"}]},
            r"bufferReplicas.*must be 0 for rungs\[0\]: its replicas span hosts",
        ),
    ],
)
def test_a_buffer_that_would_stay_empty_is_refused(recorder, args, change, message):
    refused(recorder, {**args, "buffer_replicas": 1, **change}, message)
