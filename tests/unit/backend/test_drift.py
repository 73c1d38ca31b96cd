"""Objects that somebody deleted or changed are found by comparing the state with the clusters."""

from copy import deepcopy
from typing import Any

import pytest

from scripts.backend.drift import Drift, drift_of, repair
from scripts.backend.twin import TwinBackend
from scripts.operate.status import as_data
from scripts.shared.clusters import Cluster
from scripts.terminal.console import CommandError
from twin.host.paths import TwinPaths
from twin.wire.kube import KubeError
from twin.wire.property_values import SECRET_SIGNATURE, SIGNATURE_KEY

PREFIX = "urn:pulumi:local::gke-inference::"
PROVIDER = f"{PREFIX}pulumi:providers:kubernetes::us-central1"
CLUSTER = f"{PREFIX}gcp:container/cluster:Cluster::us-central1"
NAME = "acme-local-us-central1"


def cluster_states() -> list[dict[str, Any]]:
    """Return the states of a cluster and its provider."""
    return [
        {"urn": CLUSTER, "type": "gcp:container/cluster:Cluster", "inputs": {"name": NAME}},
        {
            "urn": PROVIDER,
            "type": "pulumi:providers:kubernetes",
            "inputs": {},
            "propertyDependencies": {"kubeconfig": [CLUSTER]},
        },
    ]


def state(kind: str, name: str, version: str = "v1", **inputs: Any) -> dict[str, Any]:
    """Return the state of an object in the namespace `models`."""
    metadata = {"name": name, "namespace": "models"}
    return {
        "urn": f"{PREFIX}kubernetes:{version}:{kind}::{name}",
        "type": f"kubernetes:{version}:{kind}",
        "id": f"models/{name}",
        "provider": f"{PROVIDER}::some-id",
        "inputs": {"apiVersion": version, "kind": kind, "metadata": metadata, **inputs},
    }


class FakeKube:
    """An API server with objects by kind."""

    def __init__(self, **objects: list[dict[str, Any]] | int) -> None:
        self.objects = objects
        self.lists: list[str] = []

    def path_of(self, version: str, kind: str) -> str:
        if kind not in self.objects:
            raise KubeError(404, "NoSuchKind", f"the server has no kind {version} {kind}", {})
        return kind

    def list(self, path: str) -> list[dict[str, Any]]:
        self.lists.append(path)
        found = self.objects[path]
        if isinstance(found, int):
            raise KubeError(found, "Refused", "no", {})
        return found


def live(state: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return an object as a list of the server has it: without its kind, with defaults."""
    found = {key: value for key, value in state["inputs"].items() if key[0] not in "ak"}
    found = deepcopy({**found, **more})
    found["metadata"] = {**found["metadata"], "uid": "1", "resourceVersion": "2"}
    return found


def found_in(kube: Any, *states: dict[str, Any]) -> list[str]:
    clusters = [Cluster(NAME, "us-central1", kube)]
    return [str(each) for each in drift_of([*cluster_states(), *states], clusters)]


DEPLOYMENT = state("Deployment", "llama", "apps/v1", spec={"replicas": 1, "paused": False})
CONFIG = state("ConfigMap", "settings", data={"a": "1", "b": "2", "c": "3", "d": "4"})


def test_an_object_that_was_deleted_is_missing():
    kube = FakeKube(Deployment=[], ConfigMap=[live(CONFIG)])
    assert found_in(kube, DEPLOYMENT, CONFIG) == [
        f"Deployment models/llama in cluster {NAME} is missing"
    ]


def test_an_object_that_was_changed_names_its_first_fields():
    data = {"a": "1", "b": "x", "c": "y", "d": "z"}
    kube = FakeKube(ConfigMap=[live(CONFIG, data={**data, "a": "w"})])
    assert found_in(kube, CONFIG) == [
        f"ConfigMap models/settings in cluster {NAME} was changed: data.a, data.b, data.c and 1"
        " more"
    ]


def test_what_the_server_and_controllers_add_is_no_drift():
    spec = {"replicas": 1, "strategy": {"type": "RollingUpdate"}}  # `paused: false` is left out
    kube = FakeKube(Deployment=[live(DEPLOYMENT, spec=spec, status={"replicas": 1})])
    assert found_in(kube, DEPLOYMENT) == []


def test_a_field_that_the_program_leaves_to_others_may_change():
    scaled = {**DEPLOYMENT, "ignoreChanges": ["spec.replicas"]}
    kube = FakeKube(Deployment=[live(DEPLOYMENT, spec={"replicas": 5})])
    assert found_in(kube, scaled) == []


def test_each_kind_is_listed_once():
    other = state("ConfigMap", "other", data={})
    kube = FakeKube(ConfigMap=[live(CONFIG), live(other)])
    assert found_in(kube, CONFIG, other) == []
    assert kube.lists == ["ConfigMap"]


def test_what_the_state_has_encrypted_is_not_compared():
    hidden = {SIGNATURE_KEY: SECRET_SIGNATURE, "ciphertext": "v1:abc"}
    secret = state("Secret", "keys", data=hidden, list=[{"a": hidden, "b": 1}])
    shown = live(secret, data={"key": "dGV4dA=="}, list=[{"a": "open", "b": 1}])
    assert found_in(FakeKube(Secret=[shown]), secret) == []


def test_objects_of_a_kind_that_the_server_no_longer_knows_are_missing():
    assert found_in(FakeKube(), DEPLOYMENT) == [
        f"Deployment models/llama in cluster {NAME} is missing"
    ]


def test_a_cluster_that_refuses_is_named():
    with pytest.raises(CommandError) as failed:
        found_in(FakeKube(Deployment=403), DEPLOYMENT)
    assert str(failed.value) == f"cluster {NAME} refuses: no"


@pytest.mark.parametrize("change", [{"external": True}, {"delete": True}])
def test_objects_that_are_only_read_or_on_their_way_out_do_not_count(change):
    assert found_in(FakeKube(Deployment=[]), {**DEPLOYMENT, **change}) == []


def test_objects_of_a_cluster_that_does_not_exist_are_for_the_update():
    kube: Any = FakeKube()
    clusters = [Cluster("another", "us-central1", kube)]
    assert drift_of([*cluster_states(), DEPLOYMENT], clusters) == []


class FakeEngine:
    """A CLI that records its arguments."""

    def __init__(self, code: int = 0) -> None:
        self.code = code
        self.calls: list[tuple[str, ...]] = []

    def run(self, *arguments: str, capture: bool) -> Any:
        assert capture
        self.calls.append(arguments)
        return type("Ran", (), {"returncode": self.code, "stdout": "no\n", "stderr": "way"})


MISSING = Drift("urn:a", "Deployment", "models/llama", NAME)


def test_a_repair_reads_only_what_differs_and_names_it(capsys):
    engine: Any = FakeEngine()
    repair(engine, "local", [MISSING])
    assert engine.calls == [
        ("refresh", "--yes", "--skip-preview", "--non-interactive", "-s", "local",
         "--target", "urn:a"),
    ]  # fmt: skip
    assert capsys.readouterr().out == f"Repairing {MISSING}.\n"


def test_a_state_that_is_true_is_not_read_again():
    engine: Any = FakeEngine()
    repair(engine, "local", [])
    assert engine.calls == []


def test_a_refusal_of_the_engine_is_one_line():
    engine: Any = FakeEngine(1)
    with pytest.raises(CommandError) as failed:
        repair(engine, "local", [MISSING])
    assert str(failed.value) == "local: no way"


def test_status_names_what_is_missing_in_json():
    shown = as_data("local", [], "http://127.0.0.2", {}, (), [MISSING])
    assert shown["drift"] == [
        {
            "object": "Deployment models/llama",
            "cluster": NAME,
            "is_missing": True,
            "changed": [],
        }
    ]


def test_the_twin_compares_the_state_of_the_stack_with_its_clusters(monkeypatch, tmp_path):
    kube: Any = FakeKube(Deployment=[])
    kube.close = lambda: None
    states = [*cluster_states(), DEPLOYMENT]
    backend = TwinBackend("local", TwinPaths(tmp_path))
    clusters = [Cluster(NAME, "us-central1", kube)]
    engine = type("Engine", (), {"resources_of": lambda _self, name: states})
    monkeypatch.setattr(backend, "clusters", lambda: clusters)
    monkeypatch.setattr(backend, "pulumi", engine)
    assert [each.identifier for each in backend.drift()] == ["models/llama"]
