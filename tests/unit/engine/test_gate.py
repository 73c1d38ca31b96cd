"""The gate opens a workload once, when all that it reads is there."""

import json
from typing import Any

import pytest

from workloads.engine import gate
from workloads.engine.bucket import BucketError
from workloads.engine.spec import DELIVERED, NEEDS, REPLICAS, STATE
from workloads.engine.weights import MissingError


class FakeKube:
    """The requests of the gate, answered from a dictionary of objects."""

    namespace = "models"

    def __init__(self, *deployments: dict[str, Any]) -> None:
        self.deployments = list(deployments)
        self.state: dict[str, str] | None = None
        self.clusters: list[dict[str, Any]] = []
        self.scaled: list[tuple[str, int]] = []
        self.scalers: list[dict[str, Any]] = []

    def call(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        if path.endswith("leaderworkersets"):
            raise gate.KubeError(404, "Not Found")
        if path.endswith("/horizontalpodautoscalers"):
            return {"items": self.scalers}
        if path.endswith("/rayclusters") or "/rayclusters/" in path:
            return self._clusters(method, path, body)
        if path.endswith("/scale"):
            name, replicas = path.split("/")[-2], body["spec"]["replicas"]
            self.scaled.append((name, replicas))
            for each in self.deployments:
                if each["metadata"]["name"] == name:
                    each["spec"]["replicas"] = replicas
            return {}
        if path.endswith("/deployments"):
            return {"metadata": {"resourceVersion": "7"}, "items": self.deployments}
        if method == "POST":
            self.state = {}
        if self.state is None:
            raise gate.KubeError(404, "Not Found")
        if method == "PATCH":
            self.state |= body["data"]
        assert method == "POST" or path.endswith(f"/configmaps/{STATE}")
        return {"data": self.state}

    def _clusters(self, method: str, path: str, body: Any) -> dict[str, Any]:
        if method == "GET":
            return {"items": self.clusters}
        [cluster] = [each for each in self.clusters if path.endswith(each["metadata"]["name"])]
        cluster["spec"] |= body["spec"]
        return {}


def deployment(name: str = "llama-tpu", replicas: int = 0, uid: str = "1") -> dict[str, Any]:
    notes = {NEEDS: json.dumps([f"gs://m/{name}"]), REPLICAS: "3"}
    return {
        "metadata": {"annotations": notes, "name": name, "uid": uid},
        "spec": {"replicas": replicas},
    }


def scaler(name: str, least: int = 0, kind: str = "Deployment", **status: Any) -> dict[str, Any]:
    disabled = {"type": "ScalingActive", "status": "False", "reason": "ScalingDisabled"}
    return {
        "spec": {"minReplicas": least, "scaleTargetRef": {"kind": kind, "name": name}},
        "status": {"currentReplicas": 0, "conditions": [disabled], **status},
    }


@pytest.fixture
def missing(monkeypatch) -> set[str]:
    """Weights that are not there."""
    found: set[str] = set()

    def missing_of(needs: tuple[str, ...]) -> str:
        return next((need for need in needs if need in found), "")

    monkeypatch.setattr(gate, "missing_of", missing_of)
    return found


def opened(kube: Any) -> gate.Gate:
    return gate.Gate(kube)


def states(kube: FakeKube) -> dict[str, Any]:
    return {name: json.loads(text) for name, text in (kube.state or {}).items()}


def test_a_workload_gets_its_replicas_when_its_weights_are_there_and_not_before(missing):
    kube = FakeKube(deployment())
    missing.add("gs://m/llama-tpu")
    look = opened(kube).look
    assert look() is True
    assert kube.scaled == []
    waits = {"open": False, "uid": "1", "waits_for": "gs://m/llama-tpu"}
    assert states(kube) == {"llama-tpu": waits}
    missing.clear()
    assert look() is False
    assert kube.scaled == [("llama-tpu", 3)]
    assert states(kube)["llama-tpu"]["open"] is True


def test_a_suspended_ray_cluster_goes_on_once_when_its_weights_are_there(missing):
    kube, name = FakeKube(), "llama-gpu-0"
    cluster = deployment(name)
    cluster["metadata"]["annotations"][REPLICAS] = "1"
    cluster["spec"] = {"suspend": True}
    kube.clusters.append(cluster)
    missing.add(f"gs://m/{name}")
    look = opened(kube).look
    assert look() is True
    assert cluster["spec"] == {"suspend": True}
    missing.clear()
    assert look() is False
    assert cluster["spec"] == {"suspend": False}
    cluster["spec"]["suspend"] = True  # by somebody who means it
    assert look() is False
    assert cluster["spec"] == {"suspend": True}
    assert kube.scaled == []


def test_a_ray_cluster_beyond_the_replicas_is_opened_and_stays_suspended(missing):
    kube, name = FakeKube(), "llama-gpu-2"
    cluster = deployment(name)
    cluster["metadata"]["annotations"][REPLICAS] = "0"
    cluster["spec"] = {"suspend": True}
    kube.clusters.append(cluster)
    missing.add(f"gs://m/{name}")
    look = opened(kube).look
    assert look() is True
    missing.clear()
    assert look() is False
    assert cluster["spec"] == {"suspend": True}
    assert states(kube)[name]["open"] is True


def test_each_workload_is_opened_by_itself(missing):
    kube = FakeKube(deployment("a"), deployment("b"))
    missing.add("gs://m/a")
    assert opened(kube).look() is True
    assert kube.scaled == [("b", 3)]


def test_a_workload_that_somebody_scales_to_nothing_stays_so(missing):
    kube = FakeKube(deployment())
    look = opened(kube).look
    look()
    kube.deployments[0]["spec"]["replicas"] = 0
    look()
    assert kube.scaled == [("llama-tpu", 3)]


def test_a_workload_that_is_made_again_is_opened_again(missing):
    kube = FakeKube(deployment())
    look = opened(kube).look
    look()
    kube.deployments[0] = deployment(uid="2")
    look()
    assert kube.scaled == [("llama-tpu", 3)] * 2


def test_replicas_that_run_already_are_left_to_the_autoscaler(missing):
    kube = FakeKube(deployment(replicas=5))
    missing.add("gs://m/llama-tpu")
    assert opened(kube).look() is False
    assert kube.scaled == []


def test_a_deployment_of_something_else_is_not_looked_at(missing):
    other = deployment()
    other["metadata"]["annotations"] = None
    kube = FakeKube(other)
    assert opened(kube).look() is False
    assert states(kube) == {}


@pytest.mark.parametrize("error", [MissingError("gs://m/x"), BucketError("gs://m answers 403")])
def test_what_cannot_be_read_is_missing_and_named(monkeypatch, error):
    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(gate, "whole", refuse)
    assert gate.missing_of(("gs://m/x",)) == str(error)


def test_a_version_is_looked_for_in_its_own_folder(monkeypatch):
    seen: list[tuple[str, bool, str | None]] = []

    def whole(at: Any, has_versions: bool, version: str | None) -> None:
        seen.append((at.uri, has_versions, version))

    monkeypatch.setattr(gate, "whole", whole)
    assert gate.missing_of(("gs://m/x@v2", "gs://m/y")) == ""
    assert seen == [("gs://m/x/v2", False, "v2"), ("gs://m/y", True, None)]


def delivered(replicas: int, ready: int = 0) -> dict[str, Any]:
    """Return a workload of a tree in git, which the API server gave its number of replicas."""
    made = deployment(replicas=replicas)
    made["metadata"]["annotations"][DELIVERED] = "git"
    return {**made, "status": {"readyReplicas": ready}}


def test_a_workload_from_git_is_closed_until_its_weights_are_there(missing):
    kube = FakeKube(delivered(1))
    missing.add("gs://m/llama-tpu")
    look = opened(kube).look
    assert (look(), kube.scaled) == (True, [("llama-tpu", 0)])
    missing.clear()
    assert (look(), kube.scaled) == (False, [("llama-tpu", 0), ("llama-tpu", 3)])
    kube.deployments[0]["spec"]["replicas"] = 1  # the autoscaler has it from then on
    assert (look(), len(kube.scaled)) == (False, 2)


def test_a_workload_from_git_gets_the_replicas_that_it_begins_with(missing):
    kube = FakeKube(delivered(1))
    assert opened(kube).look() is False
    assert kube.scaled == [("llama-tpu", 3)]


def test_a_workload_from_git_that_serves_is_left_alone_whatever_is_missing(missing):
    kube = FakeKube(delivered(2, ready=1))
    missing.add("gs://m/llama-tpu")
    assert opened(kube).look() is False
    assert kube.scaled == []


def test_a_target_that_a_new_autoscaler_finds_at_zero_gets_one_replica(missing):
    kube = FakeKube(deployment("held"))
    missing.add("gs://m/held")
    active = {"type": "ScalingActive", "status": "True", "reason": "ValidMetricFound"}
    kube.scalers = [
        scaler("stream-in"),
        scaler("big", kind="RayClusterSet"),
        scaler("held"),
        scaler("paused-by-a-person", lastScaleTime="2026-11-28T00:00:00Z"),
        scaler("kept-at-zero-by-a-person", least=1),
        scaler("asleep", conditions=[active]),
        scaler("running", currentReplicas=2),
        scaler("someone-elses", kind="StatefulSet"),
    ]
    opened(kube).look()
    assert kube.scaled == [("stream-in", 1), ("big", 1)]


def test_a_new_autoscaler_without_a_status_is_left_alone(missing):
    kube = FakeKube()
    kube.scalers = [{"spec": scaler("stream-in")["spec"]}]
    opened(kube).look()
    assert kube.scaled == []
