"""Changes as rows of a page and lines of a terminal."""

import json

from scripts.check import verdict as command
from scripts.verdicts.capacity import Asked
from scripts.verdicts.changes import Change, Kind, changes, unchanged
from scripts.verdicts.markdown import comment
from scripts.verdicts.rows import counted, rows_of
from scripts.verdicts.terminal import lines
from scripts.verdicts.verdict import StackVerdict, Verdict
from tests.unit.verdicts.steps import replacement, step

CLUSTER = "gcp:container/cluster:Cluster"
CONFIG = "kubernetes:core/v1:ConfigMap"
DEPLOYMENT = "kubernetes:apps/v1:Deployment"
CLAIM = "kubernetes:core/v1:PersistentVolumeClaim"
PROVIDER = "urn:pulumi:dev::gke-inference::pulumi:providers:kubernetes::east"


def safe(kind, name, action="update"):
    return Change(Kind.SAFE, action, kind, name, f"urn:{name}", ("spec",))


def inside(*steps):
    """Return steps of objects that the provider of the cluster reaches."""
    for one in steps:
        for side in ("oldState", "newState"):
            if side in one:
                one[side] = {**one[side], "provider": f"{PROVIDER}::id"}
    return steps


def moved():
    """Return the steps in which a cluster is replaced, and what the engine says of its objects."""
    named = {name: {"metadata": {"name": name}} for name in "cdwx"}
    return [
        *replacement(CLUSTER, "east", {"name": "acme-east"}, {"name": "acme-east"}, "network"),
        *inside(
            step("same", DEPLOYMENT, "d", None, named["d"]),
            step("update", CONFIG, "c", named["c"], named["c"]),
            step("same", CLAIM, "w", None, named["w"]),
            step("create", DEPLOYMENT, "x", None, named["x"]),
        ),
        step("same", "gcp:storage/bucket:Bucket", "b", None, {"name": "b"}),
    ]


def judged(*found, **others):
    return Verdict("main (1a2b3c4)", "here", (StackVerdict("prod", changes=found, **others),))


CLUSTERS = {PROVIDER: "acme-east"}


def test_objects_of_a_cluster_that_is_replaced_are_one_row_and_neither_safe_nor_unchanged():
    found = changes(moved(), clusters=CLUSTERS)
    assert [each.noun for each in found if each.is_blocked] == ["Cluster"]
    assert unchanged(moved(), CLUSTERS) == 1
    cluster, objects, made = rows_of(found)
    assert (cluster.name, cluster.names) == ("Cluster acme-east", ("network",))
    assert (objects.count, objects.name) == ("3 objects of", "acme-east")
    assert (made.action, made.name) == ("create", "Deployment x in acme-east")
    assert counted(found) == "1 replaced, 3 re-created with their cluster, 1 safe"
    text = comment(judged(*found))
    assert (
        "| replaces | replace | 3 objects of `acme-east` | re-created with their cluster |" in text
    )
    assert "### `prod`: 1 replaced, 3 re-created with their cluster, 1 safe" in text


def test_objects_of_a_cluster_that_stays_are_what_the_engine_says():
    cluster = step("update", CLUSTER, "east", {"name": "acme-east"}, {"name": "acme-east", "a": 1})
    replaced = inside(*replacement(DEPLOYMENT, "d", {}, {}, "spec.selector"))
    steps = [cluster, *replaced, *inside(step("same", CLAIM, "w", None, {}))]
    grave = [row for row in rows_of(changes(steps, clusters=CLUSTERS)) if row.kind != "safe"]
    assert [(row.count, row.name) for row in grave] == [("", "Deployment d in acme-east")]
    assert unchanged(steps, CLUSTERS) == 1


def test_safe_updates_are_one_counted_row_in_every_output_but_the_json():
    many = [safe(CONFIG, f"c{number}") for number in range(12)]
    found = (*many, safe(DEPLOYMENT, "d"), safe(DEPLOYMENT, "new", "create"))
    said = "\n".join(lines(judged(*found)))
    assert "safe      update   13 resources: 12 ConfigMap, 1 Deployment" in said
    assert "safe      create   Deployment new" in said
    assert "c7" not in said
    row = "| safe | update | 13 resources | `12 ConfigMap`, `1 Deployment` |"
    assert row in comment(judged(*found))
    body = json.loads(command.as_json(judged(*found)))
    assert len(body["stacks"]["prod"]["changes"]) == 14


def test_the_terminal_says_which_words_mean_a_loss_and_what_is_asked_of_quotas():
    bucket = Change(
        Kind.DESTROYS, "delete", "gcp:storage/bucket:Bucket", "weights", "u", (), is_blocked=True
    )
    claim = Change(
        Kind.DESTROYS, "delete", CLAIM, "models/gemma", "v", (), place="east", is_blocked=True
    )
    asked = (
        Asked("TPUS_PER_TPU_FAMILY CT6E", "us-central1", "tpu-v6e", 20, 1040),
        Asked("GPUS_ALL_REGIONS", "", "", 0, 2),
    )
    said = list(lines(judged(bucket, claim, capacity=asked)))
    assert (
        "  to allow this, set in stacks/Pulumi.prod.yaml: allow_replace: [weights, gemma]" in said
    )
    quotas = [line.split(None, 1)[1] for line in said if line.startswith("  quota ")]
    assert quotas == [
        "tpu-v6e (TPUS_PER_TPU_FAMILY CT6E) in us-central1: 20 to 1,040 at most",
        "GPUS_ALL_REGIONS in the whole project: 0 to 2 at most",
    ]
