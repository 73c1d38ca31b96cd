"""Experts on 16 GPUs for each role, as docs/experts.md says: the example stack on the twin."""

from pathlib import Path
from typing import Any

import openai
import pytest

from tests.platform import example_checkout
from twin.cluster.base.context import ClusterContext
from twin.host.paths import TwinPaths
from twin.tests.eventually import eventually
from twin.wire.kube import Kube

# twin/tests/running has claims, groups and roles
pytestmark = [pytest.mark.needs_tools, pytest.mark.soak]

STACK = ("--stack", "wide-ep")
MODEL = "deepseek-r1"
BLOCK = "cloud.google.com/gce-topology-block"
CLAIMS = "/apis/resource.k8s.io/v1/resourceclaims"
ROLE = "llm-d.ai/role"


def servers(kube: Kube) -> list[dict[str, Any]]:
    """Return the pods of the model."""
    return kube.list("/api/v1/namespaces/models/pods", f"app.kubernetes.io/name={MODEL}")


def ready(pods: list[dict[str, Any]]) -> int:
    """Return how many pods are ready."""
    conditions = [each for pod in pods for each in pod["status"].get("conditions", [])]
    return sum((each["type"], each["status"]) == ("Ready", "True") for each in conditions)


def arguments(pod: dict[str, Any]) -> list[str]:
    return next(each["args"] for each in pod["spec"]["containers"] if each["name"] == "vllm")


def test_prefill_and_decode_groups_answer_from_nodes_of_one_block(
    tmp_path: Path, paths: TwinPaths
) -> None:
    folder = example_checkout.checkout(tmp_path / "checkout", "wide-ep")
    example_checkout.output_of(folder, paths, "up", *STACK)
    endpoint = (paths.root.parent / "wide-ep" / "endpoint").read_text().strip()
    (spec,) = (paths.root / "clusters").glob("*/spec.json")
    kube = ClusterContext(paths, spec.parent).kube

    # `up` ends with the first answer: the other groups may still be on their way
    pods = eventually(lambda: ready(found := servers(kube)) == 4 and found, 180)
    assert sorted(pod["metadata"]["labels"][ROLE] for pod in pods) == [
        *("decode", "decode"),
        *("prefill", "prefill"),
    ]
    backends = {
        pod["metadata"]["labels"][ROLE]: argument.partition("=")[2]
        for pod in pods
        for argument in arguments(pod)
        if argument.startswith("--all2all-backend=")
    }
    assert backends == {"decode": "deepep_low_latency", "prefill": "deepep_high_throughput"}
    for pod in pods:
        assert "--data-parallel-size=16" in arguments(pod)
        assert "--data-parallel-hybrid-lb" in arguments(pod)

    nodes = {pod["spec"]["nodeName"] for pod in pods}
    labels = [kube.get(f"/api/v1/nodes/{name}")["metadata"]["labels"] for name in nodes]
    assert len(nodes) == 4
    assert len({each[BLOCK] for each in labels}) == 1
    claimed = [
        len(claim["status"]["allocation"]["devices"]["results"]) for claim in kube.list(CLAIMS)
    ]
    assert claimed == [8] * 4

    http = openai.DefaultHttpxClient(trust_env=False, timeout=120)
    with openai.OpenAI(base_url=f"{endpoint}/v1", api_key="none", http_client=http) as client:
        for words in (4, 2000):  # below and above the prompt that prefill replicas compute
            messages: Any = [{"role": "user", "content": "word " * words}]
            raw = client.chat.completions.with_raw_response.create(
                model=MODEL, messages=messages, max_tokens=8
            )
            assert raw.parse().choices[0].message.content
            assert "decode" in raw.headers["x-gke-inference-pod"]

    down = example_checkout.run(folder, paths, "down")
    assert down.returncode == 0, down.stdout[-3000:]
