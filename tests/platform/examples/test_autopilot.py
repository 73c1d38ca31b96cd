"""The example on Autopilot: it comes up, answers, and scales by what the adapter serves."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.platform.example_checkout import checkout, output_of
from twin.cluster.admission.decision import ADJUSTMENT
from twin.host.paths import TwinPaths
from twin.wire.kube import JsonObject, Kube, KubeError

# the short forms are tests/contract/infra/test_autopilot.py and, with a real API server,
# twin/tests/running/cluster/test_autopilot.py
pytestmark = [pytest.mark.needs_tools, pytest.mark.soak, pytest.mark.timeout(1800)]

METRIC = "prometheus.googleapis.com|vllm:num_requests_running|gauge"
CUSTOM = f"/apis/custom.metrics.k8s.io/v1beta2/namespaces/models/pods/*/{METRIC}"
PODS = "/api/v1/namespaces/models/pods"
MODEL = "llama-3.1-8b"
BURST = 40


def until(condition: Callable[[], Any], seconds: float) -> Any:
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, f"not true within {seconds} s"
        time.sleep(0.5)
    return value


def asked(endpoint: str, tokens: int) -> int:
    """Send a request, and return the number of tokens of its answer."""
    http = openai.DefaultHttpxClient(trust_env=False)
    with openai.OpenAI(
        base_url=f"{endpoint}/v1", api_key="none", max_retries=0, http_client=http
    ) as client:
        answer = client.completions.create(
            model=MODEL,
            prompt="What does a cache keep?",
            max_tokens=tokens,
            extra_body={"ignore_eos": True},
        )
    assert answer.usage is not None
    return answer.usage.completion_tokens


def burst(endpoint: str) -> None:
    """Send a request with a long answer; the platform may be gone before it ends."""
    with suppress(openai.OpenAIError):
        asked(endpoint, 3000)


def scaler(kube: Kube) -> JsonObject:
    """Return the autoscaler of the only model."""
    (found,) = kube.list("/apis/autoscaling/v2/namespaces/models/horizontalpodautoscalers")
    return found


def test_a_model_on_autopilot_answers_and_scales_by_what_the_adapter_serves(
    tmp_path: Path, paths: TwinPaths
) -> None:
    folder = checkout(tmp_path / "checkout", "autopilot")
    output_of(folder, paths, "up", "--stack", "autopilot")
    endpoint = (paths.root.parent / "autopilot" / "endpoint").read_text().strip()
    (kubeconfig,) = paths.root.glob("clusters/*/kubeconfig")
    kube = Kube(kubeconfig)
    assert asked(endpoint, 8) == 8

    # every program was admitted; those below the minimum have what Autopilot gives
    programs = [each for each in kube.list(PODS) if ADJUSTMENT in each["metadata"]["annotations"]]
    amounts = [each["spec"]["containers"][0]["resources"]["requests"] for each in programs]
    assert all(each["ephemeral-storage"] == "1Gi" for each in amounts)
    assert "50m" in {each["cpu"] for each in amounts}
    with pytest.raises(KubeError, match="GKE Warden rejected the request"):
        kube.post("/api/v1/namespaces/default/pods", privileged())

    # the adapter's Service serves the API, as Google's manifest registers it
    registered = kube.get(
        "/apis/apiregistration.k8s.io/v1/apiservices/v1beta2.custom.metrics.k8s.io"
    )
    assert registered["spec"]["service"]["name"] == "custom-metrics-stackdriver-adapter"
    served = until(lambda: kube.get(CUSTOM)["items"], 120)
    assert {each["metric"]["name"] for each in served} == {METRIC}

    for _ in range(BURST):
        threading.Thread(target=burst, args=(endpoint,), daemon=True).start()
    until(lambda: scaler(kube)["status"].get("desiredReplicas", 0) >= 2, 180)
    assert "Nothing is left in the cloud." in output_of(folder, paths, "down")


def privileged() -> dict[str, Any]:
    container = {"name": "shell", "image": "busybox:1.36", "securityContext": {"privileged": True}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "shell", "namespace": "default"},
        "spec": {"containers": [container]},
    }
