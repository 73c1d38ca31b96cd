"""What changes, in rows that fit a page, and the lines of a terminal."""

import json

from scripts import verdict as command
from scripts.verdicts.capacity import Asked
from scripts.verdicts.changes import Change, Kind, changes
from scripts.verdicts.markdown import comment
from scripts.verdicts.rows import counted, rows_of
from scripts.verdicts.terminal import lines
from scripts.verdicts.verdict import StackVerdict, Verdict
from tests.unit.verdicts.steps import replacement, step

CLUSTER = "gcp:container/cluster:Cluster"
CONFIG = "kubernetes:core/v1:ConfigMap"
DEPLOYMENT = "kubernetes:apps/v1:Deployment"
CLAIM = "kubernetes:core/v1:PersistentVolumeClaim"
PROVIDER = "pulumi:providers:kubernetes"
KUBECONFIG = json.dumps({"current-context": "acme-east"})


def safe(kind, name, action="update"):
    return Change(Kind.SAFE, action, kind, name, f"urn:{name}", ("spec",))


def reached_by(provider, steps):
    """Return steps of objects that a provider reaches."""
    for one in steps:
        for side in ("oldState", "newState"):
            if side in one:
                one[side] = {**one[side], "provider": f"{provider['urn']}::id"}
    return steps


def moved():
    """Return the steps in which a cluster is made anew, with what runs in it."""
    cluster = replacement(CLUSTER, "east", {"name": "acme-east"}, {"name": "acme-east"}, "network")
    provider = replacement(PROVIDER, "east", {"kubeconfig": KUBECONFIG}, {}, "kubeconfig")
    inside = [
        *replacement(DEPLOYMENT, "d", {"metadata": {"name": "d"}}, {}, "provider"),
        *replacement(CONFIG, "c", {"metadata": {"name": "c"}}, {}, "provider"),
        *replacement(CLAIM, "w", {"metadata": {"name": "w"}}, {}, "provider"),
    ]
    return [*cluster, *provider, *reached_by(provider[0], inside)]


def judged(*found, **others):
    return Verdict("main (1a2b3c4)", "here", (StackVerdict("prod", changes=found, **others),))


def test_objects_of_a_cluster_that_is_made_anew_are_one_row_and_not_safe():
    clusters = {moved()[3]["urn"]: "acme-east"}
    found = changes(moved(), clusters=clusters)
    assert {each.kind for each in found} == {Kind.REPLACES}
    assert [each.noun for each in found if each.is_blocked] == ["Cluster"]
    cluster, inside = rows_of(found)
    assert (cluster.name, cluster.names) == ("Cluster acme-east", ("network",))
    assert (inside.count, inside.name) == ("3 objects of", "acme-east")
    assert counted(found) == "1 replaced, 3 made anew with their cluster"
    text = comment(judged(*found))
    assert (
        "| replaces | replace | 3 objects of `acme-east` | made anew with their cluster |" in text
    )
    assert "### `prod`: 1 replaced, 3 made anew with their cluster" in text


def test_who_allows_a_cluster_to_be_replaced_allows_the_claims_in_it():
    assert not [each for each in changes(moved(), ["acme-east"]) if each.is_blocked]


def test_an_object_that_is_replaced_while_its_cluster_stays_has_a_row_of_its_own():
    cluster = step("update", CLUSTER, "east", {"name": "acme-east"}, {"name": "acme-east", "a": 1})
    provider = step("same", PROVIDER, "east", {}, {})
    steps = reached_by(provider, replacement(DEPLOYMENT, "d", {}, {}, "spec.selector"))
    grave = [row for row in rows_of(changes([cluster, provider, *steps])) if row.kind != "safe"]
    assert [(row.count, row.name) for row in grave] == [("", "Deployment d")]


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
    assert "  to mean it, say in stacks/Pulumi.prod.yaml: allow_replace: [weights, gemma]" in said
    quotas = [line.split(None, 1)[1] for line in said if line.startswith("  quota ")]
    assert quotas == [
        "tpu-v6e (TPUS_PER_TPU_FAMILY CT6E) in us-central1: 20 to 1,040 at most",
        "GPUS_ALL_REGIONS in the whole project: 0 to 2 at most",
    ]
