"""Of two models on the twin, one slowed on purpose: ten minutes of Prometheus find it alone.

The short form is `tests/contract/infra/test_calibrated.py`, with recorded series.
"""

import json
import random
import threading
import time
from typing import Any

import openai
import pytest

from planner.speed.calibrated import read_calibration
from scripts.shared.clusters import of_twin
from tests.platform.example_checkout import checkout, output_of
from twin import daemon
from twin.host.paths import TwinPaths

pytestmark = [pytest.mark.needs_tools, pytest.mark.soak, pytest.mark.timeout(2400)]

STACK = ("--stack", "engines")
SLOW, HEALTHY = "llama-3.1-8b", "qwen3-4b"
SLOWDOWN = 1.4
MINUTES = 10.0
DEPLOYMENT = "/apis/apps/v1/namespaces/models/deployments/llama-3-1-8b-gpu"


def slow_down(paths: TwinPaths) -> None:
    """Let the engines of a model take longer steps, and wait for the new replica alone."""
    (cluster,) = of_twin(paths)
    kube = cluster.kube
    template = kube.get(DEPLOYMENT)["spec"]["template"]["spec"]
    (engine,) = (
        each["name"]
        for each in template["containers"]
        if "nvidia.com/gpu" in each.get("resources", {}).get("limits", {})
    )
    variable = {"name": "GKE_INFERENCE_SIM_SLOWDOWN", "value": str(SLOWDOWN)}
    container = {"name": engine, "env": [variable]}
    spec = {"template": {"spec": {"containers": [container]}}}
    kube.patch(DEPLOYMENT, {"spec": spec}, "strategic")
    end = time.monotonic() + 300
    while True:
        found = kube.get(DEPLOYMENT)
        status, wanted = found["status"], found["metadata"]["generation"]
        counts = [status.get(key) for key in ("replicas", "updatedReplicas", "readyReplicas")]
        if status.get("observedGeneration") == wanted and counts == [1, 1, 1]:
            return
        assert time.monotonic() < end, status
        time.sleep(1)


def ask(client: openai.OpenAI, model: str, seed: int, end: float) -> None:
    """Send requests at random moments to the stable version of a model, one in 4 s."""
    made, threads = random.Random(seed), []

    def one(words: int, tokens: int) -> None:
        messages: Any = [{"role": "user", "content": f"w{made.random()} " * words}]
        client.chat.completions.create(
            model=model,
            messages=messages,
            max_tokens=tokens,
            extra_headers={"x-model-version": "stable"} if model == SLOW else {},
            extra_body={"ignore_eos": True},
        )

    while time.monotonic() < end:
        lengths = (made.randint(20, 400), made.randint(20, 200))
        threads.append(threading.Thread(target=one, args=lengths, daemon=True))
        threads[-1].start()
        time.sleep(made.expovariate(0.25))
    for thread in threads:
        thread.join(60)


def test_of_two_models_only_the_slow_one_is_found(tmp_path, record_property):
    folder, paths = checkout(tmp_path / "checkout", "engines"), TwinPaths(tmp_path / "twin")
    file = tmp_path / "calibration.yaml"
    try:
        output_of(folder, paths, "up", *STACK)
        slow_down(paths)
        endpoint = (paths.root.parent / "engines" / "endpoint").read_text().strip()
        http = openai.DefaultHttpxClient(trust_env=False)
        with openai.OpenAI(base_url=f"{endpoint}/v1", api_key="none", http_client=http) as client:
            end = time.monotonic() + 60 * MINUTES
            both = [
                threading.Thread(target=ask, args=(client, model, seed, end))
                for seed, model in enumerate((SLOW, HEALTHY))
            ]
            for thread in both:
                thread.start()
            for thread in both:
                thread.join()
        shown = output_of(
            folder, paths, "calibrate", *STACK, "--minutes", str(MINUTES), "--write", str(file),
            "-o", "json",
        )  # fmt: skip
        rows = {row["model"]: row for row in json.loads(shown)}
        output_of(folder, paths, "cost", *STACK, "--calibration", str(file))
        output_of(folder, paths, "accept", *STACK, "--by", "Ada")
        report = json.loads((paths.root.parent / "engines" / "acceptance.json").read_text())
        output_of(folder, paths, "down", *STACK)
    finally:
        daemon.shut_down(paths)
    factors = {name: rows[name]["result"]["factor"] for name in (SLOW, HEALTHY)}
    record_property("figures", "; ".join(f"{name}: {value:.3f}" for name, value in factors.items()))
    assert factors[SLOW] == pytest.approx(SLOWDOWN, rel=0.05)
    assert rows[SLOW]["verdict"] == "slower"
    assert rows[HEALTHY]["verdict"] in ("within the interval", "within 5 %")
    (entry,) = read_calibration(file).entries
    assert entry.model == SLOW
    speeds = {row["name"].split()[0]: row["verdict"] for row in report["groups"]["Speed"]}
    assert speeds[SLOW] == speeds[HEALTHY] == "met"
