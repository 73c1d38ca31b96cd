"""Refusals and output of `render --git`, `render --oci` and `delivery status`."""

import re

import pytest

from infra.plan import resolve
from infra.reading.load import STACKS, read
from infra.reading.variants import with_delivered
from infra.stack import DeliveryTool
from scripts.delivery.status import find_delivered
from scripts.delivery.writing import check_targets, stack_tree
from scripts.shared.clusters import Cluster
from scripts.terminal.console import CommandError
from twin.wire.kube import KubeError

EXAMPLE = STACKS.parent / "docs" / "examples" / "gitops"
PLAN = resolve(read("search", EXAMPLE))


@pytest.mark.parametrize(
    ("git", "oci", "message"),
    [
        ("gone", None, "--git: must be a folder that exists, got "),
        (None, "host.example.com/serving", "--oci: must be HOST/PATH:TAG, or a folder, got "),
        (None, "layout:no tag", "--oci: must be FOLDER:TAG with a tag such as prod, got "),
    ],
)
def test_a_target_that_cannot_be_written_is_refused_before_anything_is_rendered(
    tmp_path, git, oci, message
):
    with pytest.raises(CommandError, match=re.escape(message)):
        check_targets(PLAN, "search", None if git is None else tmp_path / git, oci)


@pytest.mark.parametrize(
    ("oci", "got"), [(None, "no --oci"), ("./layout:prod", "--oci ./layout:prod")]
)
def test_only_an_artifact_in_a_registry_is_signed(oci, got):
    message = f"--sign: must be used with --oci HOST/PATH:TAG, got {got}"
    with pytest.raises(CommandError, match=f"^{re.escape(message)}$"):
        check_targets(PLAN, "search", None, oci, "key.pem")


def test_a_stack_that_is_no_serving_stack_has_no_tree(tmp_path):
    plan = resolve(read("shared", EXAMPLE))
    with pytest.raises(CommandError, match="--git: must be used with a serving stack"):
        check_targets(plan, "shared", tmp_path, None)


def test_each_cluster_has_a_folder_of_its_region():
    obj = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": "search"},
    }
    tree = stack_tree(PLAN, "search", {"acme-gitops-us-central1": [obj]})
    assert "clusters/search/us-central1/configmap.core-a.yaml" in tree.files


def test_a_preview_of_a_delivered_stack_is_asked_for_its_objects():
    text = (EXAMPLE / "Pulumi.search.yaml").read_text()
    assert '"gke-inference:with-delivered": "true"' in with_delivered(text)
    for other in (text.replace("kind: gitops", "kind: pulumi"), "a: [gitops", "- gitops"):
        assert with_delivered(other) == other


class FakeKube:
    """One RepoSync, and Deployments."""

    def __init__(self, sync=None, *deployments, groups=None):
        self._sync, self._deployments, self._groups = sync, list(deployments), groups

    def get(self, path):
        if self._sync is None:
            raise KubeError(404, "NotFound", "not found", {})
        assert path.endswith("/namespaces/search/reposyncs/repo-sync")
        return {"status": self._sync}

    def list(self, path):
        if path.endswith("/namespaces/search/leaderworkersets"):
            if self._groups is None:
                raise KubeError(404, "NotFound", "not found", {})
            return self._groups
        assert path.endswith("/namespaces/search/deployments")
        return self._deployments


def status(source="c1", synced="c1", errors=()):
    listed = [{"code": "2009", "errorMessage": each} for each in errors]
    return {
        "conditions": [{"status": "False", "type": "Stalled"}],
        "lastSyncedCommit": synced,
        "source": {"commit": source, "errors": []},
        "sync": {"commit": source, "errors": listed},
    }


def groups(new, ready):
    return {
        "metadata": {"generation": 1, "name": "llama-tpu"},
        "spec": {"replicas": 2},
        "status": {"readyReplicas": ready, "replicas": 2, "updatedReplicas": new},
    }


def rollout(new, ready, replicas=1):
    return {
        "metadata": {"generation": 2, "name": "llama-gpu"},
        "spec": {"replicas": 1},
        "status": {
            "availableReplicas": ready,
            "observedGeneration": 2,
            "replicas": replicas,
            "updatedReplicas": new,
        },
    }


@pytest.mark.parametrize(
    ("kube", "state", "said"),
    [
        (FakeKube(status(), rollout(1, 1)), "synced", ""),
        (FakeKube(status(source="c2")), "syncing", ""),
        (FakeKube(status(synced="", errors=["KNV2009: no"])), "errors", "KNV2009: no"),
        (FakeKube(), "errors", "no RepoSync repo-sync in the namespace search"),
        (FakeKube({}), "waiting", ""),
        (FakeKube(status(), rollout(1, 1, replicas=2)), "rolling-out", ""),
        (FakeKube(status(), rollout(0, 1)), "rolling-out", ""),
        (FakeKube(status(), groups=[groups(2, 2)]), "synced", ""),
        (FakeKube(status(), groups=[groups(1, 2)]), "rolling-out", ""),
        (FakeKube(status(), groups=[groups(2, 1)]), "rolling-out", ""),
    ],
)
def test_a_cluster_is_in_one_of_a_few_states(kube, state, said):
    [found] = find_delivered(
        [Cluster("c", "us-central1", kube)], "search", DeliveryTool.CONFIG_SYNC
    )
    assert found.state == state
    assert said in " ".join(found.errors)
