"""A model on the whole platform goes to zero, and its next request waits for a replica."""

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
SPEED = 5
"""Of the twin's clock."""
IDLE_SECONDS = 60


def ask(endpoint: str) -> tuple[int, str | None]:
    """Return the status and `Retry-After` of an answer."""
    body = {"model": MODEL, "messages": [{"role": "user", "content": "Which?"}], "max_tokens": 4}
    sent = {"Content-Type": "application/json"}
    url = f"{endpoint}/v1/chat/completions"
    request = urllib.request.Request(url, json.dumps(body).encode(), sent)  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=900) as answer:  # noqa: S310
            answer.read()
            return answer.status, answer.headers["Retry-After"]
    except urllib.error.HTTPError as error:
        return error.code, error.headers["Retry-After"]


def is_firing(cluster: Path) -> bool:
    """Return whether the alert about requests that wait in vain fires."""
    return bool(alert(cluster, "FirstReplicaTooLate")["state"] == "firing")


def until(what: str, check: Callable[[], bool]) -> None:
    limit = time.monotonic() + 400
    while not check():
        assert time.monotonic() < limit, what
        time.sleep(0.5)


def test_a_model_goes_to_zero_and_its_next_requests_wait_within_their_limits_for_a_replica(
    tmp_path: Path,
    paths: TwinPaths,
    series_are_recorded: Callable[[TwinPaths, str], None],
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

    until("the first replica is ready", lambda: replicas() == (1, 1) or replicas()[0] == 0)
    until("the model is at zero", lambda: replicas() == (0, 0))
    until("its last pod has drained", lambda: not engines())
    with ThreadPoolExecutor(6) as threads:
        answers = [one.result() for one in [threads.submit(ask, endpoint) for _ in range(6)]]
    served = [status for status, _ in answers if status == 200]
    refused = [after for status, after in answers if status == 503]
    assert len(served) + len(refused) == 6
    assert 1 <= len(served) <= 2  # one in each of the two relays
    assert all(after is not None and int(after) >= 5 for after in refused)
    until("the refused requests are an alert", lambda: is_firing(spec.parent))
    (active,) = alert(spec.parent, "FirstReplicaTooLate")["alerts"]
    assert active["labels"]["job"] == RELAY
    series_are_recorded(paths, "from-zero")
