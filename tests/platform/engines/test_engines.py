"""Two engines in one stack, as docs/engines.md says: a canary between them, through the gateway."""

import json
import re
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.platform import example_checkout
from twin.cluster.monitoring.promql import query
from twin.host.paths import TwinPaths

# the short forms are test_other_engines.py and test_gateway_canary.py in twin/tests/running/gateway
pytestmark = [pytest.mark.needs_tools, pytest.mark.soak]

STACK = ("--stack", "engines")
MODEL, OTHER = "llama-3.1-8b", "qwen3-4b"
CANARY = "llama-3-1-8b-sglang"
BURST = 40


def run(folder: Path, paths: TwinPaths, *arguments: str) -> str:
    answer = example_checkout.run(folder, paths, *arguments, stderr=subprocess.PIPE)
    assert answer.returncode == 0, f"{answer.stdout[-3000:]}{answer.stderr[-2000:]}"
    return answer.stdout


def until(condition: Callable[[], Any], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not true within {seconds} s"
        time.sleep(0.5)


def asked(client: openai.OpenAI, model: str, **more: Any) -> tuple[str, Any]:
    """Return the pool that answered, and the answer."""
    messages: Any = [{"role": "user", "content": "What does a cache keep?"}]
    raw = client.chat.completions.with_raw_response.create(
        model=model, messages=messages, max_tokens=4, **more
    )
    pod = raw.headers["x-gke-inference-pod"]
    return re.split(r"-(?:gpu|tpu)-", pod)[0], raw.parse()


def burst(client: openai.OpenAI, over: threading.Event) -> list[threading.Thread]:
    """Send long prompts with long answers to the canary, until `over`."""

    def one(number: int) -> None:
        messages: Any = [{"role": "user", "content": f"w{number} " * 1500}]
        with client.chat.completions.create(
            model=MODEL,
            messages=messages,
            max_tokens=3000,
            stream=True,
            extra_headers={"x-model-version": "sglang"},
            extra_body={"ignore_eos": True},
        ) as stream:
            for _ in stream:
                if over.is_set():
                    return

    threads = [threading.Thread(target=one, args=(at,), daemon=True) for at in range(BURST)]
    for thread in threads:
        thread.start()
    return threads


def test_a_model_is_tried_in_another_engine_and_both_are_read_by_their_pickers(
    tmp_path: Path, paths: TwinPaths
) -> None:
    folder = example_checkout.checkout(tmp_path / "checkout", "engines")
    shown = run(folder, paths, "up", *STACK)
    (address,) = set(re.findall(r"Metrics +http://(\S+)", shown))
    endpoint = (paths.root.parent / "engines" / "endpoint").read_text().strip()
    http = openai.DefaultHttpxClient(trust_env=False)
    with openai.OpenAI(
        base_url=f"{endpoint}/v1", api_key="none", max_retries=0, http_client=http
    ) as client:
        assert [model.id for model in client.models.list()] == [MODEL, OTHER, f"{OTHER}:sql"]
        pools = {
            version: asked(client, MODEL, extra_headers={"x-model-version": version})
            for version in ("stable", "sglang")
        }
        assert {version: pool for version, (pool, _) in pools.items()} == {
            "stable": "llama-3-1-8b",
            "sglang": CANARY,
        }
        assert pools["sglang"][1].metadata == {"weight_version": "default"}
        share = sum(asked(client, MODEL)[0] == CANARY for _ in range(200))
        assert 3 <= share <= 45  # of 200 at 10 %: outside once in a million runs
        assert asked(client, f"{OTHER}:sql")[1].model == f"{OTHER}:sql"
        with pytest.raises(openai.NotFoundError):
            asked(client, "sql")

        over = threading.Event()
        threads = burst(client, over)

        def value(metric: str) -> float:
            found = query(address, f'{metric}{{name="{CANARY}"}}')
            return max((point.value for point in found), default=0.0)

        until(lambda: value("inference_pool_average_queue_size") > 1, 60)
        until(lambda: value("inference_pool_average_kv_cache_utilization") > 0.3, 60)
        replicas = f'count(sglang:num_queue_reqs{{model_name="{MODEL}"}})'
        until(lambda: query(address, replicas)[0].value >= 2, 120)  # the autoscaler's
        over.set()
        for thread in threads:
            thread.join(30)
    run(folder, paths, "accept", *STACK, "--by", "Ada")
    report = json.loads((paths.root.parent / "engines" / "acceptance.json").read_text())
    verdicts = {row["verdict"] for group in report["groups"].values() for row in group}
    assert verdicts <= {"met", "not checked"}
