"""metrics.k8s.io: processor time and memory of the processes of containers."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from twin.cluster.metrics_api import resources, usage
from twin.cluster.metrics_api.resources import Look, ResourceMetrics, quantities
from twin.cluster.metrics_api.usage import Process, Usage

MIB = 2**20
STAT = "41 (vllm (serve)) S 7 40 40 0 -1 4194304 1 0 0 0 150 50 0 0 20 0 4 0 987 1000 256 184"


def process(parent: int = 1, session: int = 1, started: str = "1", seconds: float = 0.0) -> Process:
    return Process(parent, session, started, seconds, MIB)


def test_a_process_is_read_from_the_kernels_line_also_with_brackets_in_its_name(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(usage, "_TICKS_PER_SECOND", 100)
    monkeypatch.setattr(usage, "_PAGE_BYTES", 4096)
    assert usage.parse(STAT) == Process(7, 40, "987", 2.0, MIB)


def test_a_container_has_its_session_and_all_descendants_and_nothing_else():
    found = {
        10: process(session=10),
        11: process(parent=10, session=10),
        12: process(parent=11, session=12),  # a session of its own
        13: process(parent=1, session=10),  # its parent has ended
        20: process(session=20),
    }
    assert usage.tree(10, found) == {10, 11, 12, 13}


def test_processor_time_is_of_the_time_between_two_looks_and_a_reused_pid_counts_from_zero():
    before = {10: process(seconds=100.0), 11: process(started="1", seconds=50.0)}
    now = {10: process(seconds=103.0), 11: process(started="2", seconds=1.0)}
    assert usage.usage([10, 11], before, now, seconds=2.0) == Usage(2.0, 2 * MIB)


def test_quantities_are_sums_in_nanocores_and_kibibytes():
    assert quantities([Usage(0.25, MIB), Usage(1.5, 2 * MIB)]) == {
        "cpu": "1750000000n",
        "memory": "3072Ki",
    }


class Cluster:
    """Pods and a node, as the API server lists them."""

    def list(self, path: str, *_: str | None) -> list[dict[str, Any]]:
        if path == "/api/v1/nodes":
            return [{"metadata": {"name": "node-1"}}]
        return [
            {
                "metadata": {"name": name, "namespace": "models", "labels": {"app": name}},
                "spec": {"nodeName": "node-1"},
            }
            for name in ("engine", "idle")
        ]


@pytest.fixture
def api(tmp_path: Path) -> ResourceMetrics:
    rules = SimpleNamespace(scaled=lambda _: 15.0)
    context: Any = SimpleNamespace(kube=Cluster(), rules=rules, dir=tmp_path)
    found = ResourceMetrics(context)
    used = {("models", "engine"): {"vllm": Usage(0.5, MIB), "loader": Usage(0.25, MIB)}}
    found._sampler.last = Look(0.0, 15.0, used)
    return found


def test_pods_without_processes_have_no_value_and_a_node_has_the_sum(api: ResourceMetrics):
    base = "/apis/metrics.k8s.io/v1beta1"
    pods = api.answer(f"{base}/namespaces/models/pods", {})
    assert pods is not None
    assert pods["kind"] == "PodMetricsList"
    assert pods["items"] == [
        {
            "kind": "PodMetrics",
            "apiVersion": "metrics.k8s.io/v1beta1",
            "metadata": {"name": "engine", "namespace": "models", "labels": {"app": "engine"}},
            "timestamp": "1970-01-01T00:00:00Z",
            "window": "15.000s",
            "containers": [
                {"name": "loader", "usage": {"cpu": "250000000n", "memory": "1024Ki"}},
                {"name": "vllm", "usage": {"cpu": "500000000n", "memory": "1024Ki"}},
            ],
        }
    ]
    node = api.answer(f"{base}/nodes/node-1", {})
    assert node is not None
    assert node["usage"] == {"cpu": "750000000n", "memory": "2048Ki"}
    assert api.answer(f"{base}/namespaces/models/pods/idle", {}) is None
    assert api.answer(f"{base}/services", {}) is None


def test_a_container_has_a_value_once_its_process_was_there_at_two_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = tmp_path / "pods" / "models" / "uid"
    folder.mkdir(parents=True)
    (folder / "pod.json").write_text(json.dumps({"name": "engine"}))
    (folder / "vllm.process.json").write_text(json.dumps({"pid": 10, "started": "1"}))
    looks = [{10: process(session=10)}, {10: process(session=10)}, {10: process(10, 10, "2")}]
    monkeypatch.setattr(usage, "running", lambda: looks.pop(0))
    context: Any = SimpleNamespace(dir=tmp_path)
    sampler = resources.Sampler(context)
    sampler.look()
    assert sampler.last is None
    sampler.look()
    assert sampler.last is not None
    assert list(sampler.last.pods) == [("models", "engine")]
    sampler.look()  # another process has the PID
    assert sampler.last.pods == {}
