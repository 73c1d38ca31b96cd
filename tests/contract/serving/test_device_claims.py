from typing import Any

import pulumi
import pytest

from gke_inference.serving.model_server import ModelServer

DEPLOYMENT = "kubernetes:apps/v1:Deployment"
TEMPLATE = "kubernetes:resource.k8s.io/v1:ResourceClaimTemplate"
V6E_SPOT = {
    "accelerator": "tpu-v6e",
    "node_pools": ["v6e-spot"],
    "provisioning": "spot",
    "topology": "2x2",
}


@pytest.fixture
def claiming(dual: dict[str, Any]) -> dict[str, Any]:
    return {**dual, "form": "dra"}


def build(recorder: Any, args: Any) -> None:
    recorder.run(lambda: ModelServer("llama", args) and None)


def pod(recorder: Any) -> dict[str, Any]:
    return recorder.one(DEPLOYMENT).inputs["spec"]["template"]["spec"]


def ways(recorder: Any) -> list[dict[str, Any]]:
    (request,) = recorder.one(TEMPLATE).inputs["spec"]["spec"]["devices"]["requests"]
    assert request["name"] == "accelerator"
    return request["firstAvailable"]


def test_a_pod_claims_the_chips_of_its_first_rung_or_else_of_the_next(recorder, claiming):
    build(recorder, claiming)
    assert ways(recorder) == [
        {
            "allocationMode": "All",
            "deviceClassName": "tpu.google.com",
            "name": "tpu-v6e",
            "selectors": [
                {"cel": {"expression": 'device.attributes["tpu.google.com"].tpuGen == "v6e"'}}
            ],
        },
        {
            "allocationMode": "ExactCount",
            "count": 1,
            "deviceClassName": "gpu.nvidia.com",
            "name": "gpu",
        },
    ]
    template = recorder.one(TEMPLATE).inputs["metadata"]["name"]
    assert pod(recorder)["resourceClaims"] == [
        {"name": "accelerator", "resourceClaimTemplateName": template}
    ]


def test_the_order_of_rungs_is_the_order_of_the_claim_and_one_chip_is_named_once(
    recorder, claiming
):
    tpu, gpu = claiming["rungs"]
    build(recorder, {**claiming, "rungs": [gpu, tpu, V6E_SPOT]})
    assert [way["name"] for way in ways(recorder)] == ["gpu", "tpu-v6e"]


def test_other_devices_are_another_template_since_nobody_may_change_one(recorder, claiming):
    build(recorder, claiming)
    first = recorder.one(TEMPLATE).inputs["metadata"]["name"]
    assert first.startswith("llama-8b-devices-")
    tpu, gpu = claiming["rungs"]
    recorder.registrations.clear()
    build(recorder, {**claiming, "rungs": [gpu, tpu]})
    assert recorder.one(TEMPLATE).inputs["metadata"]["name"] != first


def test_both_servers_have_the_claim_and_neither_is_privileged(recorder, claiming):
    build(recorder, claiming)
    found = pod(recorder)
    engines = {each["name"]: each for each in found["containers"] if "vllm" in each["name"]}
    assert set(engines) == {"vllm-gpu", "vllm-tpu"}
    for engine in engines.values():
        assert engine["resources"]["claims"] == [{"name": "accelerator"}]
        assert set(engine["resources"]["requests"]) == {"cpu", "memory"}
        assert engine["securityContext"]["allowPrivilegeEscalation"] is False
        assert "privileged" not in engine["securityContext"]
        assert "--or-sleep" in engine["command"]
    users = {name: each["securityContext"]["runAsUser"] for name, each in engines.items()}
    assert users == {"vllm-gpu": 1000, "vllm-tpu": 0}
    assert not any("hostPath" in volume for volume in found["volumes"])
    assert "affinity" not in found


def test_the_model_is_one_deployment_on_either_chip(recorder, claiming):
    build(recorder, claiming)
    made = recorder.one(DEPLOYMENT).inputs
    assert made["metadata"]["name"] == "llama-8b"
    labels = made["spec"]["template"]["metadata"]["labels"]
    assert labels["gke-inference/hardware"] == "any"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"provisioning": "flex-start"}, r"must not be dra: claims need on-demand.*flex-start"),
        ({"accelerator": "tpu7x", "topology": "2x2x1"}, r"the TPU driver has tpu-v5e, tpu-v6e"),
        ({"topology": "4x4"}, "must not be dra: rungs.0. spans several hosts"),
    ],
)
def test_what_nobody_has_claimed_yet_is_refused(recorder, claiming, change, message):
    tpu, gpu = claiming["rungs"]
    changed = {key: value for key, value in tpu.items() if not key.startswith("reservation")}
    changed |= {"provisioning": "on-demand", **change}
    with pytest.raises(pulumi.InputPropertyError, match=message):
        build(recorder, {**claiming, "adapters": {}, "rungs": [changed, gpu]})
    assert recorder.all(DEPLOYMENT) == []


def test_pools_that_gke_would_make_are_refused(recorder, claiming):
    tpu, gpu = claiming["rungs"]
    bare = {key: value for key, value in gpu.items() if key != "node_pools"}
    with pytest.raises(pulumi.InputPropertyError, match="must have 'node_pools' in form dra"):
        build(recorder, {**claiming, "rungs": [tpu, bare]})
