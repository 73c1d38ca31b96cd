"""What Cloud Run refuses of a service before an instance starts."""

import copy
from typing import Any

import pytest

from gke_inference.catalogue.versions import image
from twin.providers.gcp.resources.run_services import check_service
from twin.wire.property_values import CloudError

CONTAINER: dict[str, Any] = {
    "image": "docker.io/vllm/vllm-openai:v0.32.0",
    "resources": {"limits": {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "1"}},
    "startupProbe": {"failureThreshold": 48, "periodSeconds": 5, "timeoutSeconds": 5},
}
SERVICE: dict[str, Any] = {
    "location": "us-central1",
    "name": "llama",
    "template": {
        "containers": [CONTAINER],
        "maxInstanceRequestConcurrency": 32,
        "nodeSelector": {"accelerator": "nvidia-l4"},
        "scaling": {"maxInstanceCount": 2, "minInstanceCount": 0},
        "timeout": "3600s",
    },
}


def edited(path: list[Any], value: Any) -> dict[str, Any]:
    made = copy.deepcopy(SERVICE)
    place: Any = made
    for part in path[:-1]:
        place = place[part]
    if value is None:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return made


FIRST = ["template", "containers", 0]
LIMITS = [*FIRST, "resources", "limits"]


def test_a_service_at_its_limits_and_one_of_the_least_size_are_accepted() -> None:
    check_service(SERVICE)
    check_service(edited(LIMITS, {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}))
    plain = edited(["template", "nodeSelector"], None)
    plain["template"]["containers"][0]["resources"]["limits"] = {"cpu": "1", "memory": "512Mi"}
    check_service(plain)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["name"], "Llama", "service.name: must use only lowercase"),
        (["name"], "l" * 50, "have at most 49 characters"),
        (["location"], "us-west1", "nvidia-l4 is not available in us-west1"),
        (["template", "timeout"], "3601s", "template.timeout: must be at most 3600s"),
        (["template", "maxInstanceRequestConcurrency"], 1001, "must be between 0 and 1000"),
        (["template", "scaling", "minInstanceCount"], 3, "must not be greater than"),
        (["template", "nodeSelector"], None, "node_selector.accelerator: must be set"),
        (["template", "nodeSelector", "accelerator"], "nvidia-t4", "must be one of nvidia-l4"),
        ([*LIMITS, "nvidia.com/gpu"], "2", "an instance can have one GPU"),
        ([*LIMITS, "nvidia.com/gpu"], None, "must have nvidia.com/gpu when"),
        ([*LIMITS, "cpu"], "2", "limits.cpu: must be at least 4 with nvidia-l4, got 2.0"),
        ([*LIMITS, "memory"], "8Gi", "limits.memory: must be at least 16Gi with nvidia-l4"),
        ([*FIRST, "resources", "cpuIdle"], True, "cpu_idle: must be false"),
        ([*FIRST, "image"], "ghcr.io/a/b:1", "but obtained ghcr.io/a/b:1"),
        ([*FIRST, "startupProbe", "failureThreshold"], 49, "must be at most 240, got 245"),
        ([*FIRST, "startupProbe", "initialDelaySeconds"], 241, "must be at most 240, got 241"),
        ([*FIRST, "startupProbe", "timeoutSeconds"], 6, "must not be greater than period"),
    ],
)
def test_what_cloud_run_does_not_accept_is_refused(
    path: list[Any], value: Any, message: str
) -> None:
    with pytest.raises(CloudError) as refused:
        check_service(edited(path, value))
    assert refused.value.status == 400
    assert message in refused.value.message


def test_the_larger_gpu_needs_its_own_least_size() -> None:
    larger = edited(["template", "nodeSelector", "accelerator"], "nvidia-rtx-pro-6000")
    with pytest.raises(CloudError, match="must be at least 20 with nvidia-rtx-pro-6000"):
        check_service(larger)
    larger["template"]["containers"][0]["resources"]["limits"] |= {"cpu": "20", "memory": "80Gi"}
    check_service(larger)


def test_an_instance_without_a_gpu_has_sizes_of_its_own() -> None:
    plain = edited(["template", "nodeSelector"], None)
    limits = plain["template"]["containers"][0]["resources"]["limits"]
    limits.clear()
    for size, message in (({"cpu": "3"}, "must be 1, 2, 4, 6 or 8"), ({"memory": "64Gi"}, "32Gi")):
        limits.clear()
        limits.update(size)
        with pytest.raises(CloudError, match=message):
            check_service(plain)


def test_an_own_program_that_is_not_built_is_accepted_because_the_checkout_has_it() -> None:
    check_service(edited([*FIRST, "image"], image("personal").reference))
