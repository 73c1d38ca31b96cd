"""The program that runs as many Ray clusters of each set as its scale says, and its objects."""

import json
from typing import Any

import pulumi
import pytest

from gke_inference.serving.launcher.spec import NEEDS, STATE
from gke_inference.serving.ray import scaler_program
from gke_inference.serving.ray.cluster_sets import cluster_set
from gke_inference.serving.ray.scaler import RayScaler, program, scaler_objects
from gke_inference.serving.ray.scaler_program import KubeError

SET = "big-gpu"


def cluster(number: int, *, suspended: bool, held: bool = False) -> dict[str, Any]:
    notes = {NEEDS: "[]"} if held else {}
    ready = "False" if suspended else "True"
    return {
        "metadata": {
            "annotations": notes,
            "name": f"{SET}-{number}",
            "resourceVersion": f"7{number}",
            "uid": str(number),
        },
        "spec": {"suspend": suspended, "workerGroupSpecs": [{"replicas": 2}]},
        "status": {
            "conditions": [{"type": "HeadPodReady", "status": ready}],
            "readyWorkerReplicas": 2,
        },
    }


class FakeKube:
    """The requests of the scaler, answered from dictionaries of objects."""

    namespace = "models"

    def __init__(self, replicas: int, *clusters: dict[str, Any]) -> None:
        names = [f"{SET}-{number}" for number in range(3)]
        made = cluster_set(
            SET, "models", names, budget="big", labels={}, replicas=replicas, selector={"a": "b"}
        )
        made["metadata"] |= {"generation": 1}
        self.sets = [made]
        self.clusters = {each["metadata"]["name"]: each for each in clusters}
        self.budget: dict[str, Any] | None = {"spec": {"minAvailable": 0}}
        self.state: dict[str, str] | None = None
        self.patched: list[tuple[str, Any]] = []
        self.broken: dict[str, int] = {}
        """Codes of rejected requests, by a part of their path."""

    def call(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        for part, code in self.broken.items():
            if part in path:
                raise KubeError(code, "broken")
        *_, plural, name = f"{path.removesuffix('/status')}".rpartition("/")
        if method == "GET":
            return self._read(path)
        assert method == "PATCH"
        self.patched.append((name, body))
        if "/rayclusters/" in path:
            found = self.clusters[name]
            assert body["metadata"] == {"resourceVersion": found["metadata"]["resourceVersion"]}
            found["spec"] |= body["spec"]
        elif "/poddisruptionbudgets/" in path and self.budget is not None:
            self.budget["spec"] |= body["spec"]
        else:
            assert path.endswith(f"/rayclustersets/{SET}/status"), plural
            self.sets[0]["status"] = body["status"]
        return {}

    def _read(self, path: str) -> dict[str, Any]:
        if path.endswith("/rayclustersets"):
            return {"items": self.sets, "metadata": {"resourceVersion": "9"}}
        if path.endswith("/rayclusters"):
            return {"items": list(self.clusters.values())}
        found = self.budget if "/poddisruptionbudgets/big" in path else None
        if path.endswith(f"/configmaps/{STATE}") and self.state is not None:
            found = {"data": self.state}
        if found is None:
            raise KubeError(404, "Not Found")
        return found

    @property
    def running(self) -> list[str]:
        return [
            name.rpartition("-")[2]
            for name, each in self.clusters.items()
            if not each["spec"]["suspend"]
        ]


@pytest.fixture
def look(monkeypatch):
    """Look once with the variables of the pod."""
    pod = scaler_objects("models")["deployment"]["spec"]["template"]["spec"]
    for each in pod["containers"][0]["env"]:
        monkeypatch.setenv(each["name"], each["value"])
    return lambda kube: scaler_program.Scaler(kube).look()


def trio(*running: int, held: bool = False) -> list[dict[str, Any]]:
    return [cluster(each, suspended=each not in running, held=held) for each in range(3)]


@pytest.mark.parametrize(
    ("running", "replicas", "after", "order"),
    [
        ([0], 3, ["0", "1", "2"], [f"{SET}-1", f"{SET}-2"]),
        ([0, 1, 2], 1, ["0"], [f"{SET}-2", f"{SET}-1"]),
        ([0, 2], 2, ["0", "1"], [f"{SET}-1", f"{SET}-2"]),
        ([0, 1], 2, ["0", "1"], []),
        ([0], 9, ["0", "1", "2"], [f"{SET}-1", f"{SET}-2"]),
    ],
)
def test_the_first_clusters_run_and_the_last_one_goes_first(look, running, replicas, after, order):
    kube = FakeKube(replicas, *trio(*running))
    look(kube)
    assert kube.running == after
    assert [name for name, _ in kube.patched if name in kube.clusters] == order


def test_the_budget_keeps_all_pods_of_the_running_clusters_but_one(look):
    kube = FakeKube(2, *trio(0))
    look(kube)
    assert kube.budget == {"spec": {"minAvailable": 5}}  # of two clusters with three pods each
    kube.sets[0]["spec"]["replicas"] = 1
    look(kube)
    assert kube.budget == {"spec": {"minAvailable": 2}}


def test_a_set_reports_its_running_and_its_ready_clusters_and_is_settled_with_both(look):
    kube = FakeKube(2, *trio(0))
    assert look(kube) is False
    assert kube.sets[0]["status"] == {"observedGeneration": 1, "readyReplicas": 1, "replicas": 2}
    kube.clusters[f"{SET}-1"]["status"]["conditions"] = [{"type": "HeadPodReady", "status": "True"}]
    assert look(kube) is True
    assert kube.sets[0]["status"]["readyReplicas"] == 2
    kube.patched.clear()
    assert look(kube) is True
    assert kube.patched == []


def test_a_cluster_is_the_gates_until_the_gate_has_opened_it(look):
    kube = FakeKube(2, *trio(held=True))
    assert look(kube) is False
    assert (kube.running, kube.sets[0]["status"]["replicas"]) == ([], 0)
    kube.state = {
        f"{SET}-0": json.dumps({"open": True, "uid": "0"}),
        f"{SET}-1": json.dumps({"open": True, "uid": "a cluster before this one"}),
        f"{SET}-2": json.dumps({"open": False, "uid": "2"}),
    }
    look(kube)
    assert kube.running == ["0"]
    kube.state[f"{SET}-1"] = json.dumps({"open": True, "uid": "1"})
    look(kube)
    assert kube.running == ["0", "1"]


@pytest.mark.parametrize("part", ["rayclustersets", "/rayclusters", "configmaps"])
def test_without_a_complete_answer_nothing_changes(look, part):
    kube = FakeKube(1, *trio(0, 1, 2))
    kube.broken[part] = 500
    with pytest.raises(KubeError, match="500"):
        look(kube)
    assert (kube.running, kube.patched) == (["0", "1", "2"], [])


def test_a_cluster_that_is_missing_changes_no_budget_and_no_other_cluster(look):
    kube = FakeKube(2, *trio(0, 1))
    del kube.clusters[f"{SET}-1"]  # Pulumi replaces it
    assert look(kube) is False
    assert kube.running == ["0"]
    assert kube.budget == {"spec": {"minAvailable": 0}}


def test_a_set_without_its_budget_is_scaled(look):
    kube = FakeKube(2, *trio(0))
    kube.budget = None
    look(kube)
    assert kube.running == ["0", "1"]


def test_a_set_that_cannot_be_scaled_keeps_no_other_from_it(look, capsys):
    kube = FakeKube(1, *trio(0, 1))
    other = cluster(0, suspended=True)
    other["metadata"]["name"] = "small-gpu-0"
    kube.clusters["small-gpu-0"] = other
    made = cluster_set(
        "small-gpu", "models", ["small-gpu-0"], budget="", labels={}, replicas=0, selector={}
    )
    made["metadata"] |= {"generation": 1}
    made["spec"]["replicas"] = 1
    kube.sets.insert(0, made)
    kube.broken["small-gpu-0"] = 409
    assert look(kube) is False
    assert kube.running == ["0"]
    assert json.loads(capsys.readouterr().out.splitlines()[0]) == {
        "message": "small-gpu: the API server answers 409 broken",
        "severity": "WARNING",
    }


def test_other_ray_clusters_of_the_namespace_are_left_alone(look):
    kube = FakeKube(3, *trio(0, 1, 2))
    own: dict[str, Any] = {"metadata": {"name": "lab"}, "spec": {"suspend": True}}
    kube.clusters["lab"] = own
    look(kube)
    assert own["spec"] == {"suspend": True}


def test_an_autoscaler_finds_the_replicas_and_the_heads_of_a_set(recorder):
    assert recorder.run(lambda: RayScaler("scaler", {"namespace": "models"}).namespace) == "models"
    definition = scaler_objects("models")["definition"]
    assert definition["metadata"]["name"] == "rayclustersets.gke-inference.internal"
    (version,) = definition["spec"]["versions"]
    assert version["subresources"]["scale"] == {
        "labelSelectorPath": ".spec.selector",
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
    }
    made = FakeKube(1).sets[0]
    properties = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert set(properties["required"]) == set(properties["properties"]) == set(made["spec"])


def test_the_scaler_may_change_clusters_budgets_and_the_status_of_sets_and_nothing_else():
    rules = scaler_objects("models")["role"]["rules"]
    allowed = {
        f"{group}/{resource}": each["verbs"]
        for each in rules
        for group in each["apiGroups"]
        for resource in each["resources"]
    }
    assert allowed == {
        "/configmaps": ["get"],
        "gke-inference.internal/rayclustersets": ["list", "watch"],
        "gke-inference.internal/rayclustersets/status": ["patch"],
        "policy/poddisruptionbudgets": ["get", "patch"],
        "ray.io/rayclusters": ["list", "patch"],
    }
    assert rules[-1]["resourceNames"] == [STATE]


def test_the_scaler_runs_unprivileged_as_python_without_packages():
    pod = scaler_objects("models")["deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    compile(container["command"][2], "program", "exec")
    assert container["command"][:2] == ["python3", "-c"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["serviceAccountName"] == scaler_objects("models")["account"]["metadata"]["name"]


def test_a_namespace_that_cannot_be_is_refused(recorder):
    with pytest.raises(pulumi.InputPropertyError, match=r"namespace.*must"):
        recorder.run(lambda: RayScaler("scaler", {"namespace": "Not a name"}))


def test_the_text_of_the_program_has_its_client_and_needs_only_the_standard_library():
    space: dict[str, Any] = {"__name__": "text"}
    text = program()
    exec(compile(text, "program", "exec"), space)  # noqa: S102 - own program
    assert {"Kube", "KubeError", "Scaler", "main"} <= space.keys()
    assert "gke_inference.serving" not in text
