from typing import Any

import pytest

from gke_inference.operators.device_drivers import DeviceDrivers, driver_objects

DAEMON_SET = "kubernetes:apps/v1:DaemonSet"
DEVICE_CLASS = "kubernetes:resource.k8s.io/v1:DeviceClass"


def build(recorder: Any, *kinds: str) -> DeviceDrivers:
    made: list[DeviceDrivers] = []
    recorder.run(lambda: made.append(DeviceDrivers("drivers", {"kinds": list(kinds)})))
    return made[0]


def pods(recorder: Any) -> dict[str, dict[str, Any]]:
    return {
        name: found["spec"]["template"]["spec"]
        for name, found in recorder.objects(DAEMON_SET).items()
    }


def expressions(pod: dict[str, Any]) -> list[tuple[str, str]]:
    required = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (term,) = required["nodeSelectorTerms"]
    return [(each["key"], each["operator"]) for each in term["matchExpressions"]]


def test_each_kind_has_its_class_and_its_driver(recorder):
    assert build(recorder, "tpu", "gpu").device_classes == {
        "gpu": "gpu.nvidia.com",
        "tpu": "tpu.google.com",
    }
    names = {each.inputs["metadata"]["name"] for each in recorder.all(DEVICE_CLASS)}
    assert names == {"gpu.nvidia.com", "tpu.google.com"}
    assert set(pods(recorder)) == {
        "dra-driver-google-tpu",
        "dra-driver-nvidia-gpu",
        "nvidia-driver-installer",
    }


def test_drivers_run_on_the_nodes_that_are_theirs_whatever_their_taints(recorder):
    build(recorder, "gpu", "tpu")
    found = pods(recorder)
    assert expressions(found["dra-driver-google-tpu"]) == [
        ("cloud.google.com/gke-tpu-accelerator", "Exists"),
        ("cloud.google.com/gke-tpu-dra-driver", "In"),
    ]
    assert expressions(found["dra-driver-nvidia-gpu"]) == [("nvidia.com/gpu.present", "In")]
    assert expressions(found["nvidia-driver-installer"]) == [
        ("cloud.google.com/gke-accelerator", "Exists"),
        ("cloud.google.com/gke-gpu-driver-version", "DoesNotExist"),
    ]
    assert {str(each["tolerations"]) for each in found.values()} == {"[{'operator': 'Exists'}]"}


def test_no_driver_has_a_priority_that_gke_refuses_outside_of_its_namespaces(recorder):
    build(recorder, "gpu", "tpu")
    named = {name for name, pod in pods(recorder).items() if "priorityClassName" in pod}
    assert named == {"nvidia-driver-installer"}, "it is in kube-system"


def test_without_gpus_no_gpu_driver_is_installed(recorder):
    build(recorder, "tpu")
    assert set(pods(recorder)) == {"dra-driver-google-tpu"}


def test_a_driver_may_publish_the_devices_of_its_own_node_alone():
    policy = driver_objects("gpu")["own-slices"]["spec"]
    user = "system:serviceaccount:dra-driver-nvidia-gpu:dra-driver-nvidia-gpu"
    (condition,) = policy["matchConditions"]
    assert condition["expression"] == f"request.userInfo.username == '{user}'"
    (rule,) = policy["validations"]
    assert "spec.?nodeName" in rule["expression"]
    assert policy["failurePolicy"] == "Fail"


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        ([], "kinds.*must have at least 1 entry, got 0"),
        (["cpu"], r"kinds\[0\].*must be one of gpu, tpu, got 'cpu'"),
        (["tpu", "tpu"], r"kinds\[1\].*must be in the list only once, got 'tpu'"),
    ],
)
def test_unknown_or_repeated_kinds_are_refused(recorder, kinds, message):
    with pytest.raises(Exception, match=message):
        build(recorder, *kinds)
    assert recorder.all(DAEMON_SET) == []
