"""Device claims on the whole platform: a model on a TPU, and on a GPU once TPUs are out."""

import subprocess
import time
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.platform import example_checkout
from twin.cluster.base.context import ClusterContext
from twin.host.paths import TwinPaths
from twin.tests.eventually import eventually
from twin.wire.kube import Kube
from twin.world.capacity import World

# the short form is twin/tests/running/groups/test_interfaces.py, with the real scheduler
pytestmark = [pytest.mark.needs_tools, pytest.mark.soak]

STACK = ("--stack", "device-claims")
MODEL, NAMESPACE = "llama-3.1-8b", "models"
CLAIMS = "/apis/resource.k8s.io/v1/resourceclaims"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
SCALERS = f"/apis/autoscaling/v2/namespaces/{NAMESPACE}/horizontalpodautoscalers"


def replicas(kube: Kube) -> dict[str, str]:
    """Return the ready replicas with what each of them claimed: TPU chips or GPUs."""
    pods = kube.list(f"/api/v1/namespaces/{NAMESPACE}/pods", "gke-inference/hardware=any")
    ready = {
        pod["metadata"]["name"]
        for pod in pods
        for each in pod["status"].get("conditions", [])
        if each["type"] == "Ready" and each["status"] == "True"
    }
    found: dict[str, str] = {}
    for claim in kube.list(CLAIMS):
        status = claim.get("status", {})
        for user in status.get("reservedFor", []):
            results = status["allocation"]["devices"]["results"]
            if user["name"] in ready:
                found[user["name"]] = f"{len(results)} {results[0]['request']}"
    return found


def scale(kube: Kube, count: int) -> None:
    (scaler,) = kube.list(SCALERS)
    body = {"spec": {"maxReplicas": count, "minReplicas": count}}
    kube.patch(f"{SCALERS}/{scaler['metadata']['name']}", body)


def answering(endpoint: str, wanted: str) -> bool:
    """Return whether a replica is among those that answer through the gateway."""
    http = openai.DefaultHttpxClient(trust_env=False)
    messages: Any = [{"role": "user", "content": f"Who are you? {time.monotonic()}"}]
    with openai.OpenAI(base_url=f"{endpoint}/v1", api_key="none", http_client=http) as client:
        raw = client.chat.completions.with_raw_response.create(
            model=MODEL, messages=messages, max_tokens=4
        )
    return raw.headers["x-gke-inference-pod"] == wanted


def unplaced(kube: Kube, known: set[str]) -> list[str]:
    """Return what the scheduler says of replicas that came later than some others."""
    return [
        each["message"]
        for each in kube.list(f"/api/v1/namespaces/{NAMESPACE}/events")
        if each["reason"] == "FailedScheduling"
        and each["involvedObject"]["name"] not in known
        and each["involvedObject"]["name"].startswith("llama")
    ]


def test_a_claim_falls_through_to_a_gpu_when_tpus_are_out_of_stock(
    tmp_path: Path, paths: TwinPaths
) -> None:
    folder = example_checkout.checkout(tmp_path / "checkout", "device-claims")
    up = example_checkout.run(folder, paths, "up", *STACK, stderr=subprocess.PIPE)
    assert up.returncode == 0, f"{up.stdout[-3000:]}{up.stderr[-2000:]}"
    endpoint = (paths.root.parent / "device-claims" / "endpoint").read_text().strip()
    (spec,) = (paths.root / "clusters").glob("*/spec.json")
    kube = ClusterContext(paths, spec.parent).kube
    first = replicas(kube)
    assert list(first.values()) == ["4 accelerator/tpu-v6e"]

    none = {"zone": "*", "accelerator": "tpu-v6e", "provisioning": "on-demand", "chips": 0}
    World.model_validate({"stock": [none]}).save(paths.capacity_file)
    scale(kube, 2)
    both = eventually(lambda: len(found := replicas(kube)) == 2 and found)
    (second,) = both.keys() - first.keys()
    assert both[second] == "1 accelerator/gpu"
    eventually(lambda: answering(endpoint, second))

    # without its driver a node has no devices, and a claim no node
    drivers = "/apis/apps/v1/namespaces/dra-driver-nvidia-gpu/daemonsets/dra-driver-nvidia-gpu"
    kube.delete(drivers)
    eventually(lambda: [each["spec"]["driver"] for each in kube.list(SLICES)] == ["tpu.google.com"])
    kube.delete(f"/api/v1/namespaces/{NAMESPACE}/pods/{second}")
    eventually(lambda: any("cannot allocate all claims" in e for e in unplaced(kube, set(both))))
    eventually(lambda: replicas(kube) == first)

    down = example_checkout.run(folder, paths, "down")
    assert down.returncode == 0, down.stdout[-3000:]
