"""Roles that scale apart, as docs/disaggregation.md says: the example stack on the twin."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.platform import example_checkout
from twin.cluster.base.context import ClusterContext
from twin.host.paths import TwinPaths
from twin.tests.eventually import eventually

# the short form: twin/tests/running/cluster has the autoscalers with metrics that the test sets
pytestmark = [pytest.mark.needs_tools, pytest.mark.soak]

STACK = ("--stack", "disaggregation")
MODEL = "llama-3.3-70b"
DEPLOYMENTS = "/apis/apps/v1/namespaces/models/deployments"
WORDS = 12_000
"""Words of a prompt, each of two tokens."""
PROMPTS = 60
"""Prompts at once: more than one prefill replica computes before its metrics are read again."""


def test_long_prompts_add_a_prefill_replica_and_no_decode_replica(
    tmp_path: Path, paths: TwinPaths
) -> None:
    folder = example_checkout.checkout(tmp_path / "checkout", "disaggregation")
    example_checkout.output_of(folder, paths, "up", *STACK)
    endpoint = (paths.root.parent / "disaggregation" / "endpoint").read_text().strip()
    (spec,) = (paths.root / "clusters").glob("*/spec.json")
    kube = ClusterContext(paths, spec.parent).kube

    def wanted() -> dict[str, int]:
        """Return the replicas of each role that its autoscaler wants."""
        found = kube.list(DEPLOYMENTS, "gke-inference/model=llama-3-3-70b")
        return {each["metadata"]["name"]: each["spec"]["replicas"] for each in found}

    assert eventually(lambda: len(wanted()) == 2 and wanted(), 60) == {
        "llama-3-3-70b-decode": 1,
        "llama-3-3-70b-prefill": 1,
    }
    http = openai.DefaultHttpxClient(trust_env=False, timeout=300)
    with (
        openai.OpenAI(base_url=f"{endpoint}/v1", api_key="none", http_client=http) as client,
        ThreadPoolExecutor(PROMPTS) as threads,
    ):

        def asked(number: int) -> str | None:
            messages: Any = [{"role": "user", "content": f"w{number} " * WORDS}]
            answer = client.chat.completions.create(model=MODEL, messages=messages, max_tokens=4)
            return answer.choices[0].message.content

        answers = threads.map(asked, range(PROMPTS))
        grown = {"llama-3-3-70b-decode": 1, "llama-3-3-70b-prefill": 2}
        assert eventually(lambda: max(wanted().values()) > 1 and wanted(), 120) == grown
        assert all(answers)
        assert wanted() == grown

    down = example_checkout.run(folder, paths, "down")
    assert down.returncode == 0, down.stdout[-3000:]
