"""Changes of a pod that its agent answers at once, and not with its next look."""

import time
from collections.abc import Callable
from pathlib import Path
from queue import Queue
from types import SimpleNamespace
from typing import Any, cast

import pytest

from twin.cluster.agent.config_versions import ConfigVersions
from twin.cluster.agent.images import Images
from twin.cluster.agent.pod import PodRunner
from twin.cluster.base.context import ClusterContext

GATE = "example.com/registered"
POD: dict[str, Any] = {
    "metadata": {"name": "gated", "namespace": "n", "uid": "u"},
    "spec": {
        "nodeName": "l4-1",
        "containers": [],
        "readinessGates": [{"conditionType": GATE}],
    },
    "status": {"podIP": "127.64.0.9"},
}
_SECONDS = 20.0


class Cluster:
    """An API that notes the statuses of pods."""

    def __init__(self, folder: Path) -> None:
        self.dir = folder
        self.kube = self
        self.rules = SimpleNamespace(speed=1)
        self.events = SimpleNamespace(emit=lambda *_, **__: None)
        self.statuses = Queue[dict[str, Any]]()

    def patch(self, path: str, body: Any, *, type: str) -> Any:  # noqa: A002 - as in Kube
        del path, type
        self.statuses.put(body["status"])
        return {**POD, "status": {**POD["status"], **body["status"]}}


def with_gate(status: dict[str, Any]) -> dict[str, Any]:
    return {**status, "conditions": [{"type": GATE, "status": "True"}]}


def with_another_address(status: dict[str, Any]) -> dict[str, Any]:
    return {**status, "podIP": "127.64.0.10"}


@pytest.mark.parametrize("change", [with_gate, with_another_address])
def test_the_status_is_reported_again(
    change: Callable[[dict[str, Any]], dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    cluster = Cluster(tmp_path)
    context, images = cast(ClusterContext, cluster), cast(Images, None)
    node = {"metadata": {"name": "l4-1"}}
    runner = PodRunner(context, POD, node, images, cast(ConfigVersions, None))
    monkeypatch.setattr(runner, "_prepare", lambda: True)
    runner._limits.due = time.monotonic() + 1000  # nothing of the pod is due
    runner.start()
    assert is_ready(cluster.statuses.get(timeout=_SECONDS)) is False
    runner.update({**POD, "status": change(POD["status"])})
    again = cluster.statuses.get(timeout=_SECONDS)
    assert again["podIP"] == "127.64.0.9"
    assert is_ready(again) is (change is with_gate)
    runner.leave()
    runner.join(_SECONDS)


def is_ready(status: dict[str, Any]) -> bool:
    return {"type": "Ready", "status": "True"}.items() <= next(
        each for each in status["conditions"] if each["type"] == "Ready"
    ).items()
