"""KV cache beyond the accelerator, as docs/kv-cache.md says: the example stack on the twin."""

import json
import urllib.request
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.platform import example_checkout
from twin.cluster.base.context import ClusterContext
from twin.host.paths import TwinPaths

# simulator/tests has the tiers of an engine, tests/contract/serving their settings
pytestmark = [pytest.mark.needs_tools, pytest.mark.soak]

STACK = ("--stack", "kv-offload")
MODEL = "llama-3.1-8b"
PODS = "/api/v1/namespaces/models/pods"
WORDS = 7000
"""Words of a document, each of two tokens."""
DOCUMENTS = 6
"""More text than fits into the KV cache of an L4 beside the weights."""


def connector_of(arguments: list[str]) -> dict[str, Any]:
    """Return the KV connector among an engine's flags."""
    (value,) = (each for each in arguments if each.startswith("--kv-transfer-config="))
    return json.loads(value.partition("=")[2])


def test_a_document_that_fell_out_of_the_accelerator_is_read_from_main_memory(
    tmp_path: Path, paths: TwinPaths
) -> None:
    folder = example_checkout.checkout(tmp_path / "checkout", "kv-offload")
    example_checkout.output_of(folder, paths, "up", *STACK)
    endpoint = (paths.root.parent / "kv-offload" / "endpoint").read_text().strip()
    (spec,) = (paths.root / "clusters").glob("*/spec.json")
    kube = ClusterContext(paths, spec.parent).kube
    (pod,) = kube.list(PODS, "gke-inference/model=llama-3-1-8b")
    connector = connector_of(pod["spec"]["containers"][0]["args"])
    assert connector["kv_connector"] == "OffloadingConnector"
    settings = connector["kv_connector_extra_config"]
    assert settings["cpu_bytes_to_use"] == 12 * 2**30
    assert [tier["type"] for tier in settings["secondary_tiers"]] == ["fs"]

    def total(name: str, labels: str = "") -> float:
        """Return the sum of a metric's series whose labels contain some text."""
        with urllib.request.urlopen(f"http://{pod['status']['podIP']}:8000/metrics") as page:
            lines = page.read().decode().splitlines()
        series = [line for line in lines if line.startswith(f"{name}{{") and labels in line]
        return sum(float(line.rpartition(" ")[2]) for line in series)

    http = openai.DefaultHttpxClient(trust_env=False, timeout=120)
    with openai.OpenAI(base_url=f"{endpoint}/v1", api_key="none", http_client=http) as client:

        def asked(document: int) -> str | None:
            messages: Any = [{"role": "user", "content": f"w{document} " * WORDS}]
            answer = client.chat.completions.create(model=MODEL, messages=messages, max_tokens=4)
            return answer.choices[0].message.content

        assert all(asked(document) for document in range(DOCUMENTS))
        assert total("vllm:kv_offload_store_bytes_total") > 0
        source = ("vllm:prompt_tokens_cached_by_source_total", 'source="host"')
        assert total(*source) == 0
        assert asked(0)
        assert total(*source) > WORDS
        assert total("vllm:kv_offload_load_bytes_total") > 0

    down = example_checkout.run(folder, paths, "down")
    assert down.returncode == 0, down.stdout[-3000:]
