"""Config Sync on the twin, with a real API server, kubectl and git: what a commit does."""

import base64
import json
import subprocess
import threading
import time
from pathlib import Path

import pytest
import yaml

from twin.cluster.delivery import ConfigSync
from twin.wire.kube import KubeError
from twin.world.store import Store

pytestmark = pytest.mark.needs_tools

TEAM = "search"
PROPAGATION = "configsync.gke.io/deletion-propagation-policy"
SYNC = f"/apis/configsync.gke.io/v1beta1/namespaces/{TEAM}/reposyncs/repo-sync"
MAPS = f"/api/v1/namespaces/{TEAM}/configmaps"
RULES = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}]


class Repository:
    """A repository with a branch, and what is committed to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self._git("init", "--quiet", "--initial-branch=main")

    def _git(self, *arguments: str) -> str:
        argv = ["git", "-c", "user.name=test", "-c", "user.email=test@example.com", *arguments]
        done = subprocess.run(argv, cwd=self.folder, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def commit(self, *objects: dict, text: str = "") -> str:
        """Replace the tree and return the commit."""
        place = self.folder / "clusters" / "us-central1"
        place.mkdir(parents=True, exist_ok=True)
        for file in place.glob("*"):
            file.unlink()
        for at, obj in enumerate(objects):
            (place / f"{at}.yaml").write_text(yaml.safe_dump(obj))
        if text:
            (place / "broken.yaml").write_text(text)
        self._git("add", "--all")
        self._git("commit", "--quiet", "--allow-empty", "--message", "Change the tree")
        return self._git("rev-parse", "HEAD")


def config(name: str, value: str, namespace: str = TEAM) -> dict:
    return {
        "apiVersion": "v1",
        "data": {"value": value},
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
    }


def enable(ctx) -> None:
    """Put the cluster's membership of the fleet, with Config Sync, into the cloud."""
    spec = ctx.spec
    link = (
        f"//container.googleapis.com/projects/{spec.project}/locations/{spec.location}"
        f"/clusters/{spec.name}"
    )
    store = Store(ctx.paths.cloud_db)
    for kind, name, inputs in (
        ("membership:Membership", "member", {"endpoint": {"gkeCluster": {"resourceLink": link}}}),
        (
            "featureMembership:FeatureMembership",
            "config",
            {
                "configmanagement": {"configSync": {"enabled": True}},
                "membership": "projects/acme/locations/us-central1/memberships/member",
            },
        ),
    ):
        put(store, f"gcp:gkehub/{kind}", name, spec.project, inputs)


def put(store: Store, kind: str, name: str, project: str, inputs: dict) -> None:
    with store._open() as db:
        db.execute(
            "INSERT INTO resources VALUES (?, ?, ?, ?, '', 'ready', 1, ?, '{}', 0)",
            (kind, name, name, project, json.dumps(inputs)),
        )


def until(reached, what: str, seconds: float = 40.0):
    end = time.monotonic() + seconds
    while not (value := reached()):
        assert time.monotonic() < end, f"not in {seconds:.0f} s: {what}"
        time.sleep(0.1)
    return value


@pytest.fixture(scope="module")
def kube(control_plane):
    """A cluster with Config Sync, and a team that its reconciler may serve."""
    with pytest.raises(KubeError):
        control_plane.kube.get("/apis/configsync.gke.io/v1beta1")
    enable(control_plane)
    stop = threading.Event()
    thread = threading.Thread(target=ConfigSync(control_plane).run, args=(stop,))
    thread.start()
    found = control_plane.kube
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/reposyncs.configsync.gke.io"

    def is_served() -> bool:
        try:
            conditions = (found.get(path).get("status") or {}).get("conditions") or []
        except KubeError:
            return False
        return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)

    until(is_served, "the kind RepoSync")
    rbac = {"apiVersion": "rbac.authorization.k8s.io/v1"}
    account = {
        "kind": "ServiceAccount",
        "name": f"ns-reconciler-{TEAM}",
        "namespace": "config-management-system",
    }
    for obj in (
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM}},
        {
            **rbac,
            "kind": "Role",
            "metadata": {"name": "deployer", "namespace": TEAM},
            "rules": RULES,
        },
        {
            **rbac,
            "kind": "RoleBinding",
            "metadata": {"name": "deploys", "namespace": TEAM},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "Role",
                "name": "deployer",
            },
            "subjects": [account],
        },
    ):
        found.apply(obj, manager="test")
    yield found
    stop.set()
    thread.join(timeout=10)


@pytest.fixture
def repository(kube, tmp_path):
    """A repository that the namespace is synced with."""
    made = Repository(tmp_path / "serving")
    made.commit(config("a", "1"), config("b", "1"))
    kube.apply(
        {
            "apiVersion": "configsync.gke.io/v1beta1",
            "kind": "RepoSync",
            "metadata": {
                "annotations": {PROPAGATION: "Foreground"},
                "name": "repo-sync",
                "namespace": TEAM,
            },
            "spec": {
                "git": {
                    "auth": "none",
                    "branch": "main",
                    "dir": "clusters/us-central1",
                    "repo": f"file://{made.folder}",
                },
                "sourceFormat": "unstructured",
                "sourceType": "git",
            },
        },
        manager="test",
    )
    yield made
    kube.delete(SYNC)
    until(lambda: is_gone(kube), "the RepoSync gone")
    assert values(kube) == {}  # its objects go first


def is_gone(kube) -> bool:
    try:
        kube.get(SYNC)
    except KubeError as error:
        return error.status == 404
    return False


def values(kube) -> dict[str, str]:
    found = {obj["metadata"]["name"]: obj.get("data", {}) for obj in kube.list(MAPS)}
    found.pop("kube-root-ca.crt", None)
    found.pop("config-sync", None)
    return {name: data.get("value", "") for name, data in found.items()}


def synced(kube, commit: str):
    """Return the status once it is about a commit, and what was synced last."""

    def reached():
        status = kube.get(SYNC).get("status") or {}
        return status if (status.get("source") or {}).get("commit") == commit else None

    return until(reached, f"a status about {commit}")


def errors(status: dict) -> list[str]:
    return [each["errorMessage"] for part in ("source", "sync") for each in status[part]["errors"]]


def test_a_commit_is_applied_and_what_it_no_longer_has_is_pruned(kube, repository):
    until(lambda: values(kube) == {"a": "1", "b": "1"}, "the first commit")
    commit = repository.commit(config("a", "2"))
    until(lambda: values(kube) == {"a": "2"}, "the second commit")
    status = until(
        lambda: (found := synced(kube, commit))["lastSyncedCommit"] == commit and found, "synced"
    )
    assert errors(status) == []
    conditions = {each["type"]: each["status"] for each in status["conditions"]}
    assert conditions == {"Reconciling": "False", "Stalled": "False", "Syncing": "False"}


def test_a_change_by_somebody_else_is_undone_and_a_field_that_is_not_declared_stays(
    kube, repository
):
    until(lambda: values(kube) == {"a": "1", "b": "1"}, "the commit")
    time.sleep(1.5)
    kube.patch(f"{MAPS}/a", {"data": {"other": "mine"}})
    kube.patch(f"{MAPS}/a", {"data": {"value": "9"}})
    kube.delete(f"{MAPS}/b")
    until(lambda: values(kube) == {"a": "1", "b": "1"}, "both as declared")
    assert kube.get(f"{MAPS}/a")["data"] == {"other": "mine", "value": "1"}


def test_a_commit_that_is_refused_is_reported_and_what_ran_stays(kube, repository):
    until(lambda: values(kube) == {"a": "1", "b": "1"}, "the first commit")
    first = until(
        lambda: (kube.get(SYNC).get("status") or {}).get("lastSyncedCommit"), "the first synced"
    )
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "escape", "namespace": TEAM},
        "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}],
    }
    second = repository.commit(config("a", "2"), role)
    until(lambda: errors(synced(kube, second)), "errors")
    status = synced(kube, second)
    assert any("forbidden" in each for each in errors(status)), errors(status)
    assert status["lastSyncedCommit"] == first
    assert values(kube) == {"a": "2", "b": "1"}  # nothing is pruned of a commit with errors

    third = repository.commit(config("a", "3"), text="a: [")
    status = until(
        lambda: (found := synced(kube, third))["source"]["errors"] and found, "source errors"
    )
    assert status["source"]["errors"][0]["code"] == "1017"
    assert values(kube)["a"] == "2"

    fourth = repository.commit(config("a", "4", namespace="default"))
    status = until(
        lambda: "1058" in str((found := synced(kube, fourth))["source"]["errors"]) and found,
        "an object of another namespace",
    )
    assert values(kube)["a"] == "2"

    fifth = repository.commit(config("a", "5"))
    until(lambda: values(kube) == {"a": "5"}, "a commit that is sound again")
    assert until(lambda: synced(kube, fifth)["lastSyncedCommit"] == fifth, "synced")


def test_a_source_that_cannot_be_read_changes_nothing(kube, repository):
    until(lambda: values(kube) == {"a": "1", "b": "1"}, "the commit")
    until(lambda: kube.get(SYNC).get("status"), "the status of the commit")
    kube.patch(SYNC, {"spec": {"git": {"branch": "gone"}}})
    status = until(
        lambda: (found := kube.get(SYNC)["status"])["source"]["errors"] and found, "an error"
    )
    assert status["source"]["errors"][0]["code"] == "2004"
    assert values(kube) == {"a": "1", "b": "1"}
    kube.patch(SYNC, {"spec": {"git": {"auth": "token", "secretRef": {"name": "login"}}}})

    def stalled() -> str:
        conditions = kube.get(SYNC)["status"]["conditions"]
        return next(c["message"] for c in conditions if c["type"] == "Stalled")

    assert "must have the keys username and token" in until(stalled, "stalled")
    login = {key: base64.b64encode(b"x").decode() for key in ("username", "token")}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"}, "data": login}
    kube.post(f"/api/v1/namespaces/{TEAM}/secrets", secret)
    kube.patch(SYNC, {"spec": {"git": {"branch": "main"}}})
    until(lambda: not errors(kube.get(SYNC)["status"]), "no error")
    kube.delete(f"/api/v1/namespaces/{TEAM}/secrets/login")
