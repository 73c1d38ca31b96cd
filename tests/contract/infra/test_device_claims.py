"""Models whose pods claim devices: what a region builds for them, what they may ask of quotas."""

import json
from pathlib import Path

from infra.estimate.quota_needs import needs
from infra.estimate.stack_cost import stack_cost
from infra.plan import resolve
from infra.reading.load import parse, platform_of
from infra.stack import Platform
from tests.contract.infra.cloud import Deployed

EXAMPLE = Path(__file__).parents[3] / "docs/examples/device-claims/Pulumi.device-claims.yaml"
POOL = "gcp:container/nodePool:NodePool"


def example(form: str = "dra") -> Platform:
    platform = platform_of(EXAMPLE)
    platform["models"]["llama-3.1-8b"]["form"] = form
    return parse(json.dumps(platform))


def test_pools_of_claimed_chips_leave_them_to_the_drivers(deployed: Deployed):
    seen = deployed(example())
    pools = {each.inputs["name"]: each.inputs["nodeConfig"] for each in seen.all(POOL)}
    tpu, gpu = pools["either-0"], pools["either-1"]
    assert tpu["labels"] == {
        "cloud.google.com/compute-class": "either",
        "cloud.google.com/gke-tpu-dra-driver": "true",
    }
    assert gpu["labels"] == {
        "cloud.google.com/compute-class": "either",
        "cloud.google.com/gke-nvidia-gpu-dra-driver": "true",
        "gke-no-default-nvidia-gpu-device-plugin": "true",
        "nvidia.com/gpu.present": "true",
    }
    (accelerator,) = gpu["guestAccelerators"]
    version = accelerator["gpuDriverInstallationConfig"]["gpuDriverVersion"]
    assert version == "INSTALLATION_DISABLED"


def test_both_drivers_come_before_the_model(deployed: Deployed):
    seen = deployed(example())
    names = [each.name for each in seen.registrations]
    model = names.index("us-central1-llama-3-1-8b-any")
    for driver in ("gpu-plugin", "gpu-installer", "tpu-plugin"):
        assert names.index(f"us-central1-device-drivers-{driver}") < model


def test_a_namespace_of_claims_refuses_privileged_pods(deployed: Deployed):
    spaces = {
        each.inputs["metadata"]["name"]: each.inputs["metadata"]["labels"]
        for each in deployed(example()).all("kubernetes:core/v1:Namespace")
    }
    assert spaces["models"]["pod-security.kubernetes.io/enforce"] == "baseline"


def test_other_forms_install_no_driver(deployed: Deployed):
    seen = deployed(example("dual-container"))
    assert not [each.name for each in seen.registrations if "device-drivers" in each.name]


def test_the_images_of_drivers_are_among_those_to_pin():
    assert {"dra_driver_gpu", "dra_driver_tpu"} <= set(resolve(example()).images.needed)
    assert not [each for each in resolve(example("dual-container")).images.needed if "dra" in each]


def test_claims_cost_and_need_what_the_same_nodes_do_in_two_containers():
    claims, dual = resolve(example()), resolve(example("dual-container"))
    assert stack_cost(claims).total("maximum") == stack_cost(dual).total("maximum")
    assert [(need.metric.label, need.amount) for need in needs(claims)] == [
        (need.metric.label, need.amount) for need in needs(dual)
    ]
