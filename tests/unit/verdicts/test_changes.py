"""Effects of the engine's steps on users of the platform."""

from typing import Any

import pytest

from scripts.verdicts.changes import Kind, changes, unchanged
from scripts.verdicts.restarts import restarts
from tests.unit.verdicts.record import recorded
from tests.unit.verdicts.steps import replacement, step
from twin.host.paths import REPOSITORY

CLUSTER = "gcp:container/cluster:Cluster"
POOL = "gcp:container/nodePool:NodePool"
BUCKET = "gcp:storage/bucket:Bucket"
DEPLOYMENT = "kubernetes:apps/v1:Deployment"
GROUPS = "kubernetes:leaderworkerset.x-k8s.io/v1:LeaderWorkerSet"
CONFIG = "kubernetes:core/v1:ConfigMap"


def pods(image, **spec) -> dict[str, Any]:
    return {"spec": {"template": {"spec": {"containers": [{"image": image}]}}, **spec}}


def only(steps, allowed=()):
    [change] = changes(steps, allowed)
    return change


def test_the_recorded_change_is_what_was_changed():
    found = changes(recorded().steps)
    assert found[0].kind is Kind.RESTARTS
    graver = {(c.noun, c.name): c for c in found if c.kind is not Kind.SAFE}
    assert set(graver) == {
        ("NodePool", "system"),
        ("Deployment", "models/acme-local-gateway-catalogue"),
        ("Deployment", "models/llama-3-1-8b-gpu"),
        ("Deployment", "models/llama-3-1-8b-tpu"),
    }
    assert graver["NodePool", "system"].fields == ("nodeConfig.machineType",)
    made = {c.name for c in found if c.action == "create" and c.noun == "Deployment"}
    assert made == {"models/gemma-3-4b-gpu", "models/gemma-3-4b-picker", "models/gemma-3-4b-tpu"}


def test_what_the_engine_leaves_alone_is_counted_without_components_and_providers():
    steps = [
        step("same", BUCKET, "a", {}, {}),
        step("same", "pulumi:providers:gcp", "p", {}, {}),
        step("same", "pulumi:pulumi:Stack", "s", {}, {}),
    ]
    component: Any = step("same", "gke-inference:index:Network", "n", {}, {})
    component["newState"]["custom"] = False
    assert unchanged([*steps, component]) == 1
    assert changes([*steps, component]) == []


def test_a_replacement_is_one_change_with_its_reasons():
    change = only(replacement(CLUSTER, "main", {"name": "acme"}, {"name": "acma"}, "name"))
    assert (change.kind, change.action, change.name) == (Kind.REPLACES, "replace", "acme")
    assert change.fields == ("name",)
    assert change.is_blocked


@pytest.mark.parametrize("allowed", ["acme", "main"])
def test_what_the_stack_names_in_the_clouds_words_or_the_programs_may_go(allowed):
    steps = replacement(CLUSTER, "main", {"name": "acme"}, {"name": "acma"}, "name")
    assert not only(steps, [allowed]).is_blocked


def test_a_deleted_bucket_blocks_and_a_deleted_deployment_does_not():
    assert only([step("delete", BUCKET, "b", {"name": "weights"})]).is_blocked
    gone = only([step("delete", DEPLOYMENT, "d", pods("a"))])
    assert gone.kind is Kind.DESTROYS
    assert not gone.is_blocked


def test_a_replaced_config_map_is_no_replacement_to_anybody():
    change = only(replacement(CONFIG, "c", {"data": {"a": "1"}}, {"data": {"a": "2"}}, "data"))
    assert (change.kind, change.action) == (Kind.SAFE, "replace")


def test_the_gravest_change_comes_first():
    steps = [
        step("create", BUCKET, "new", None, {"name": "new"}),
        step("update", DEPLOYMENT, "d", pods("a"), pods("b")),
        step("delete", DEPLOYMENT, "e", pods("a")),
        *replacement(POOL, "p", {"name": "p"}, {"name": "p"}, "cluster"),
    ]
    assert [change.kind for change in changes(steps)] == [
        Kind.DESTROYS, Kind.REPLACES, Kind.RESTARTS, Kind.SAFE,
    ]  # fmt: skip


def test_another_image_restarts_and_another_number_of_replicas_does_not():
    assert restarts(DEPLOYMENT, pods("a"), pods("b")) == "the pod template changes"
    assert restarts(DEPLOYMENT, pods("a", replicas=1), pods("a", replicas=2)) == ""


def test_an_annotation_of_the_pods_restarts_them():
    old, new = pods("a"), pods("a")
    new["spec"]["template"]["metadata"] = {"annotations": {"hash": "2"}}
    assert restarts(DEPLOYMENT, old, new)


def test_another_size_of_a_group_restarts_it():
    def group(size):
        return {"spec": {"leaderWorkerTemplate": {"size": size, "workerTemplate": {}}}}

    assert restarts(GROUPS, group(2), group(4))
    assert not restarts(GROUPS, group(2), group(2))


def test_pods_that_are_only_made_anew_by_hand_are_left_alone():
    new = pods("b", updateStrategy={"type": "OnDelete"})
    assert restarts("kubernetes:apps/v1:StatefulSet", pods("a"), new) == ""


@pytest.mark.parametrize("field", ["labels", "taints", "resourceLabels", "tags"])
def test_what_google_changes_on_running_nodes_restarts_nothing(field):
    assert restarts(POOL, {"nodeConfig": {field: 1}}, {"nodeConfig": {field: 2}}) == ""


def test_how_nodes_are_made_anew_is_said_as_the_pool_says():
    old = {"nodeConfig": {"machineType": "a"}, "version": "1"}
    new: dict[str, Any] = {"nodeConfig": {"machineType": "b"}, "version": "2"}
    assert restarts(POOL, old, new) == (
        "nodes are re-created because of nodeConfig.machineType, version "
        "(surge: 1 more, 0 out at a time)"
    )
    new["upgradeSettings"] = {"maxSurge": 0, "maxUnavailable": 2}
    assert "(surge: 0 more, 2 out at a time)" in restarts(POOL, old, new)
    new["upgradeSettings"] = {"strategy": "BLUE_GREEN"}
    assert "(blue-green)" in restarts(POOL, old, new)


def test_a_cluster_wide_setting_makes_all_nodes_anew():
    said = restarts(CLUSTER, {}, {"enableIntranodeVisibility": True})
    assert said == "all nodes are re-created because of enableIntranodeVisibility"
    assert restarts(CLUSTER, {"monitoringConfig": 1}, {"monitoringConfig": 2}) == ""


@pytest.mark.parametrize("kind", [CLUSTER, POOL])
def test_a_zone_that_is_taken_out_removes_its_nodes_and_one_more_does_not(kind):
    two, one = {"nodeLocations": ["a", "b"]}, {"nodeLocations": ["a"]}
    assert restarts(kind, two, one) == "the nodes in b are removed"
    assert restarts(kind, one, two) == ""


@pytest.mark.parametrize("zones", [{}, {"nodeLocations": "04da6b54-80e4-46f7-96ec-b56ff0331ba9"}])
def test_zones_that_are_left_out_or_not_known_yet_are_not_taken_out(zones):
    assert restarts(POOL, {"nodeLocations": ["a"]}, zones) == ""


def test_nodes_made_anew_and_nodes_removed_are_both_said():
    old = {"nodeConfig": {"machineType": "a"}, "nodeLocations": ["a", "b"]}
    said = restarts(POOL, old, {"nodeConfig": {"machineType": "b"}, "nodeLocations": ["a"]})
    assert "re-created because of nodeConfig.machineType" in said
    assert said.endswith("; the nodes in b are removed")


@pytest.mark.parametrize(
    "text",
    [
        '= "gcp:container/cluster:Cluster"',
        '"cloud.google.com/compute-class"',
        '"DaemonSet", "Deployment", "LeaderWorkerSet", "RayCluster", "StatefulSet"',
    ],
)
def test_what_the_verdict_and_the_policies_both_read_is_written_once(text):
    files = [
        each
        for name in ("bench", "policies", "scripts")
        for each in (REPOSITORY / name).rglob("*.py")
    ]
    assert len([each for each in files if text in each.read_text()]) == 1
