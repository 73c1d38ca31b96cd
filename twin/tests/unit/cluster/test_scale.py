"""When the scale check takes its nodes for ready."""

from typing import Any

import pytest

from twin.cluster.nodes.scale import wait_for_nodes


class Kube:
    """An API server whose nodes change as a list says."""

    def __init__(self, changes: list[tuple[str, Any]]) -> None:
        self.changes = changes
        self.told: list[str] = []

    def watch(self, path, stop, label_selector=None):
        assert (path, label_selector) == (
            "/api/v1/nodes",
            "cloud.google.com/gke-nodepool=scale-check",
        )
        for change in self.changes:
            self.told.append(change[0])
            yield change
        while True:
            yield "TICK", {}


def node(name: str, status: str = "True", *taints: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {"taints": [{"key": key} for key in taints]},
        "status": {"conditions": [{"type": "Ready", "status": status}]},
    }


def test_nodes_count_when_they_are_ready_and_the_controllers_let_pods_on():
    kube: Any = Kube(
        [
            ("ADDED", node("a")),
            ("ADDED", node("b", "False")),
            ("ADDED", node("c", "True", "node.kubernetes.io/not-ready", "google.com/tpu")),
            ("SYNCED", {}),
            ("MODIFIED", node("a", "False")),
            ("MODIFIED", node("b")),
            ("MODIFIED", node("c", "True", "google.com/tpu")),
            ("MODIFIED", node("a")),
            ("BOOKMARK", {}),
        ]
    )
    wait_for_nodes(kube, 3, timeout=60)
    assert kube.told == [kind for kind, _ in kube.changes[:-1]]


def test_nodes_that_never_come_are_waited_for_until_the_time_is_over():
    kube: Any = Kube([("ADDED", node("a"))])
    with pytest.raises(TimeoutError, match="1 after 0 s"):
        wait_for_nodes(kube, 2, timeout=0)
