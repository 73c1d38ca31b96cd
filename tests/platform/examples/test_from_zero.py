"""A model on the whole platform goes to zero with its node; its next request waits for both."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.platform import example_checkout
from tests.platform.example_checkout import output_of
from tests.platform.observe.alerts import alert
from twin.cluster.base.context import ClusterContext
from twin.host.paths import TwinPaths

# the short form is twin/tests/running/gateway/test_fallback.py, with the real picker
pytestmark = [pytest.mark.needs_tools, pytest.mark.soak, pytest.mark.timeout(1500)]

STACK = ("--stack", "from-zero")
MODEL, NAME, RELAY = "llama-3.1-8b", "llama-3-1-8b-gpu", "relay-llama-3-1-8b"
SPEED = 2
"""Of the twin's clock. Processes of the twin start in real time, so that a faster clock would count
them several times. At 1, a request without a stream would wait longer than its relay allows."""
IDLE_SECONDS = 60
NOT_IMITATED = ("pod", "warm-up")
"""Stages of a cold start that the twin does not imitate (rule agent.pod.start)."""


def ask(endpoint: str) -> tuple[int, str | None, float]:
    """Return the status and `Retry-After` of an answer, and the seconds until it."""
    body = {"model": MODEL, "messages": [{"role": "user", "content": "Which?"}], "max_tokens": 4}
    sent = {"Content-Type": "application/json"}
    url = f"{endpoint}/v1/chat/completions"
    request = urllib.request.Request(url, json.dumps(body).encode(), sent)  # noqa: S310
    began = time.monotonic()
    try:
        with urllib.request.urlopen(request, timeout=900) as answer:  # noqa: S310
            answer.read()
            return answer.status, answer.headers["Retry-After"], time.monotonic() - began
    except urllib.error.HTTPError as error:
        return error.code, error.headers["Retry-After"], time.monotonic() - began


def is_firing(cluster: Path) -> bool:
    """Return whether the alert about requests that wait in vain fires."""
    return bool(alert(cluster, "FirstReplicaTooLate")["state"] == "firing")


def until(what: str, check: Callable[[], bool]) -> None:
    limit = time.monotonic() + 600
    while not check():
        assert time.monotonic() < limit, what
        time.sleep(0.5)


def test_a_model_goes_to_zero_with_its_node_and_its_next_request_takes_a_cold_start(
    tmp_path: Path,
    paths: TwinPaths,
    series_are_recorded: Callable[[TwinPaths, str], None],
    record_property: Callable[[str, object], None],
) -> None:
    folder = example_checkout.checkout(tmp_path / "checkout", "from-zero")
    file = folder / "stacks" / "Pulumi.from-zero.yaml"
    stack = yaml.safe_load(file.read_text())
    model = stack["config"]["gke-inference:platform"]["models"][MODEL]
    model["replicas"]["from_zero"] |= {"idle_seconds": IDLE_SECONDS, "requests": 1}
    model["replicas"]["scale_in_delay_seconds"] = 30
    file.write_text(yaml.safe_dump(stack))
    paths.settings_file.parent.mkdir(parents=True, exist_ok=True)
    paths.settings_file.write_text(json.dumps({"speed": SPEED}))
    output_of(folder, paths, "up", *STACK)
    endpoint = (paths.root.parent / "from-zero" / "endpoint").read_text().strip()
    (start,) = [
        one
        for one in json.loads(output_of(folder, paths, "coldstart", *STACK, "-o", "json"))
        if one["rung"].endswith("on-demand")
    ]
    missing = sum(
        stage["seconds"] for stage in start["start"]["stages"] if stage["name"] in NOT_IMITATED
    )
    predicted = start["lead_seconds"] - missing
    (spec,) = (paths.root / "clusters").glob("*/spec.json")
    kube = ClusterContext(paths, spec.parent).kube
    at = f"/apis/apps/v1/namespaces/models/deployments/{NAME}"

    def replicas() -> tuple[int, int]:
        found: dict[str, Any] = kube.get(at)
        return found["spec"]["replicas"], found["status"].get("readyReplicas", 0)

    def engines() -> list[str]:
        pods = kube.list("/api/v1/namespaces/models/pods")
        names = [pod["metadata"]["name"] for pod in pods]
        return [name for name in names if name.startswith(f"{NAME}-")]

    def nodes() -> list[bool]:
        """Return whether each node with an accelerator is ready."""
        label = "cloud.google.com/gke-accelerator"
        found = [one for one in kube.list("/api/v1/nodes") if label in one["metadata"]["labels"]]
        return [
            any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
            for conditions in (one["status"].get("conditions", []) for one in found)
        ]

    def runs() -> bool:
        return any(
            one["status"].get("phase") == "Running" and one["metadata"]["name"].startswith(NAME)
            for one in kube.list("/api/v1/namespaces/models/pods")
        )

    until("the first replica is ready", lambda: replicas() == (1, 1) or replicas()[0] == 0)
    until("the model is at zero", lambda: replicas() == (0, 0))
    until("its last pod has drained", lambda: not engines())
    until("its node is gone", lambda: not nodes())
    steps: dict[str, float] = {}
    waits: list[tuple[str, Callable[[], bool]]] = [
        ("a replica is wanted", lambda: replicas()[0] > 0),
        ("its node is ready", lambda: any(nodes())),
        ("its container runs", runs),
        ("it is ready", lambda: replicas()[1] > 0),
    ]
    began = time.monotonic()
    with ThreadPoolExecutor(6) as threads:
        asked = [threads.submit(ask, endpoint) for _ in range(6)]
        for what, check in waits:
            until(what, check)
            steps[what] = (time.monotonic() - began) * SPEED
        answers = [one.result() for one in asked]
    served = [taken * SPEED for status, _, taken in answers if status == 200]
    refused = [after for status, after, _ in answers if status == 503]
    assert len(served) + len(refused) == 6
    assert 1 <= len(served) <= 2  # one in each of the two relays
    assert all(after is not None and int(after) >= 5 for after in refused)
    until("the refused requests are an alert", lambda: is_firing(spec.parent))
    (active,) = alert(spec.parent, "FirstReplicaTooLate")["alerts"]
    assert active["labels"]["job"] == RELAY
    series_are_recorded(paths, "from-zero")
    seen = "; ".join(f"{what} after {at:.0f} s" for what, at in steps.items())
    figures = f"answered after {max(served):.0f} s, predicted {predicted:.0f} s; {seen}"
    record_property("figures", figures)
    assert max(served) == pytest.approx(predicted, rel=0.1), figures
