"""Objects of Config Sync and Argo CD that deliver the models of a namespace."""

from typing import Any

import pulumi
import pytest

from gke_inference import ConfigSync, ModelDelivery
from tests.contract.components_k8s.crds import check

GIT: dict[str, Any] = {
    "directory": "clusters/us",
    "kind": "git",
    "location": "https://git.example.com/serving.git",
    "namespace": "search",
    "tool": "config-sync",
}
OCI: dict[str, Any] = {
    **GIT,
    "kind": "oci",
    "location": "us-docker.pkg.dev/acme/serving/models:prod",
}


def made(recorder: Any, args: dict[str, Any]) -> dict[str, Any]:
    given: Any = args
    recorder.run(lambda: ModelDelivery("search", given).object_name)
    [found] = [each for each in recorder.registrations if each.type.startswith("kubernetes:")]
    return found.inputs


def test_a_repo_sync_reads_a_branch_of_a_public_repository(recorder):
    obj = made(recorder, GIT)
    check(obj)
    assert obj["metadata"]["name"] == "repo-sync"
    # its objects go with it
    propagation = "configsync.gke.io/deletion-propagation-policy"
    assert obj["metadata"]["annotations"] == {propagation: "Foreground"}
    assert obj["spec"] == {
        "git": {
            "auth": "none",
            "branch": "main",
            "dir": "clusters/us",
            "repo": "https://git.example.com/serving.git",
        },
        "sourceFormat": "unstructured",
        "sourceType": "git",
    }


@pytest.mark.parametrize(
    ("location", "auth"),
    [("https://git.example.com/a.git", "token"), ("git@git.example.com:a.git", "ssh")],
)
def test_a_secret_signs_in_as_the_repository_asks(recorder, location, auth):
    obj = made(recorder, {**GIT, "location": location, "secret": "login"})
    check(obj)
    assert obj["spec"]["git"]["auth"] == auth
    assert obj["spec"]["git"]["secretRef"] == {"name": "login"}


@pytest.mark.parametrize(
    ("image", "auth"),
    [(OCI["location"], "k8sserviceaccount"), ("host.example.com/models:prod", "none")],
)
def test_an_artifact_of_googles_registry_is_read_as_the_reconciler(recorder, image, auth):
    obj = made(recorder, {**OCI, "location": image})
    check(obj)
    assert obj["spec"]["oci"] == {"auth": auth, "dir": "clusters/us", "image": image}


def test_an_application_prunes_and_heals_in_its_namespace_alone(recorder):
    obj = made(recorder, {**OCI, "tool": "argo-cd"})
    assert (obj["metadata"]["name"], obj["metadata"]["namespace"]) == ("search", "search")
    assert obj["metadata"]["finalizers"] == ["resources-finalizer.argocd.argoproj.io"]
    assert obj["spec"] == {
        "destination": {"namespace": "search", "server": "https://kubernetes.default.svc"},
        "project": "search",
        "source": {
            "path": "clusters/us",
            "repoURL": "oci://us-docker.pkg.dev/acme/serving/models",
            "targetRevision": "prod",
        },
        "syncPolicy": {
            "automated": {"prune": True, "selfHeal": True},
            "syncOptions": ["ServerSideApply=true"],
        },
    }


def test_a_secret_for_what_has_its_own_logins_is_refused(recorder):
    with pytest.raises(pulumi.InputPropertyError, match="must not be set except for git"):
        made(recorder, {**GIT, "secret": "login", "tool": "argo-cd"})


def test_each_cluster_joins_the_fleet_and_has_config_sync(recorder):
    cluster: Any = {
        "cluster_id": "projects/acme/locations/us-central1/clusters/a",
        "location": "us-central1",
        "membership": "a",
    }
    args: Any = {"clusters": {"us-central1": cluster}, "project": "acme"}
    recorder.run(lambda: ConfigSync("sync", args).memberships)
    member = recorder.one("gcp:gkehub/membership:Membership").inputs
    link = "//container.googleapis.com/projects/acme/locations/us-central1/clusters/a"
    assert member["endpoint"] == {"gkeCluster": {"resourceLink": link}}
    feature = recorder.one("gcp:gkehub/featureMembership:FeatureMembership").inputs
    assert feature["configmanagement"] == {
        "configSync": {"enabled": True, "sourceFormat": "unstructured"},
        "management": "MANAGEMENT_AUTOMATIC",
    }
    assert recorder.one("gcp:gkehub/feature:Feature").inputs["name"] == "configmanagement"


def test_config_sync_of_no_cluster_is_refused(recorder):
    args: Any = {"clusters": {}, "project": "acme"}
    with pytest.raises(pulumi.InputPropertyError, match="must have at least 1 entry, got 0"):
        recorder.run(lambda: ConfigSync("sync", args).memberships)
