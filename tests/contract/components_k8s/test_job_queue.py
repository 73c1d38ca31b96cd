from typing import Any

import pulumi
import pytest

from gke_inference.queues.job_namespace import (
    JobNamespace,
    JobNamespaceArgs,
    jobs_namespace,
    local_queue,
)
from gke_inference.queues.job_queue import (
    JobQueue,
    JobQueueArgs,
    QueueFlavorArgs,
    QueueTeamArgs,
    cohort_object,
    flavor_object,
    queued_objects,
    team_queue,
    topology_object,
)
from tests.contract.components_k8s import crds

FLAVORS: list[QueueFlavorArgs] = [
    {"chips": 16, "compute_class": "spot", "kind": "tpu"},
    {"chips": 8, "compute_class": "flex", "kind": "tpu"},
]
GANG: QueueFlavorArgs = {
    "chips": 8,
    "compute_class": "gang",
    "kind": "gpu",
    "max_run_seconds": 3600,
    "node_pool": "gang-0",
}
TEAM: QueueTeamArgs = {"borrow": 4, "chips": {"spot": 8}, "lend": 6, "namespace": "jobs-a"}


def resources(obj: dict[str, Any]) -> dict[str, dict[str, Any]]:
    (group,) = obj["spec"]["resourceGroups"]
    return {each["name"]: each["resources"][0] for each in group["flavors"]}


def test_the_objects_are_what_their_definitions_declare():
    for obj in (
        *(flavor_object(each, "q") for each in FLAVORS),
        cohort_object("q", FLAVORS, {"a": TEAM}),
        team_queue("q", "a", TEAM, FLAVORS, preempt=True),
        flavor_object(GANG, "q"),
        topology_object("q"),
        flavor_object({**GANG, "topology": True}, "q"),
        *queued_objects("q", GANG).values(),
        team_queue("q", "b", TEAM, [GANG], preempt=False),
        local_queue("q", "jobs-a", "q-a"),
    ):
        crds.check(obj)


def test_a_team_lends_no_more_than_it_has():
    found = resources(team_queue("q", "a", TEAM, FLAVORS, preempt=True))
    assert found == {
        "spot": {
            "borrowingLimit": 4,
            "lendingLimit": 6,
            "name": "google.com/tpu",
            "nominalQuota": 8,
        },
        "flex": {
            "borrowingLimit": 4,
            "lendingLimit": 0,
            "name": "google.com/tpu",
            "nominalQuota": 0,
        },
    }


def test_a_team_may_borrow_everything_where_nothing_is_said():
    found = resources(team_queue("q", "a", {"namespace": "n"}, FLAVORS, preempt=True))
    assert found["spot"] == {"name": "google.com/tpu", "nominalQuota": 0}


def test_a_job_asks_again_for_its_nodes_until_those_of_the_job_before_it_are_gone():
    strategy = queued_objects("q", GANG)["request"]["spec"]["retryStrategy"]
    assert strategy == {
        "backoffBaseSeconds": 60,
        "backoffLimitCount": 100,
        "backoffMaxSeconds": 600,
    }


def test_only_the_namespace_of_the_team_may_use_its_queue():
    spec = team_queue("q", "a", TEAM, FLAVORS, preempt=True)["spec"]
    labels = jobs_namespace("jobs-a")["metadata"]["labels"]
    wanted = dict(spec["namespaceSelector"]["matchLabels"])
    assert wanted.pop("kubernetes.io/metadata.name") == "jobs-a"
    assert wanted.items() <= labels.items()


def test_a_flavor_of_nodes_that_come_together_can_place_jobs_by_block(recorder: Any):
    team: QueueTeamArgs = {"chips": {"gang": 8}, "namespace": "jobs-a"}
    flavors: list[QueueFlavorArgs] = [{**GANG, "topology": True}]
    args: JobQueueArgs = {"flavors": flavors, "queue_name": "q", "teams": {"a": team}}
    recorder.run(lambda: JobQueue("q", args).queue_name)
    kind = "kubernetes:kueue.x-k8s.io/v1beta2:"
    topology = recorder.one(f"{kind}Topology").inputs
    assert topology["metadata"]["name"] == "q"
    assert [level["nodeLabel"] for level in topology["spec"]["levels"]] == [
        "cloud.google.com/gce-topology-block",
        "cloud.google.com/gce-topology-subblock",
        "cloud.google.com/gce-topology-host",
        "kubernetes.io/hostname",
    ]
    flavor = recorder.one(f"{kind}ResourceFlavor").inputs["spec"]
    assert flavor["topologyName"] == "q"
    assert flavor["nodeLabels"] == {"cloud.google.com/gke-nodepool": "gang-0"}


@pytest.mark.parametrize(
    ("flavor", "team", "rule"),
    [
        (
            {"topology": True},
            {},
            "flavors[0].topology must be false without nodePool: Kueue admits such jobs only to "
            "existing nodes",
        ),
        ({"chips": 0}, {}, "flavors[0].chips must be 1 to 100000, got 0"),
        (
            {"kind": "cpu"},
            {},
            "flavors[0].kind must be one of gpu, tpu, got 'cpu'; did you mean 'tpu'?",
        ),
        (
            {"max_run_seconds": 604801},
            {},
            "flavors[0].maxRunSeconds must be 1 to 604800, got 604801",
        ),
        (
            {"compute_class": "flex"},
            {},
            "flavors[1].computeClass must be in only one flavor, got 'flex' twice",
        ),
        (
            {},
            {"chips": {"none": 4}},
            "teams.a.chips must be one of spot, flex, got 'none'",
        ),
        ({}, {"chips": {"spot": -4}}, "teams.a.chips.spot must be 0 to 100000, got -4"),
        ({}, {"borrow": -1}, "teams.a.borrow must be 0 to 100000, got -1"),
        ({}, {"lend": 0.5}, "teams.a.lend must be a whole number, got 0.5"),
        (
            {"chips": 12},
            {"chips": {"spot": 8}},
            "flavors[0].chips must be at least the total of its teams (16), got 12",
        ),
    ],
)
def test_what_cannot_be_shared_out_is_refused(
    recorder: Any, flavor: dict[str, Any], team: dict[str, Any], rule: str
):
    args: Any = {
        "flavors": [{**FLAVORS[0], **flavor}, FLAVORS[1]],
        "queue_name": "q",
        "teams": {"a": {**TEAM, **team}, "b": TEAM},
    }
    with pytest.raises(pulumi.InputPropertyError) as refused:
        recorder.run(lambda: JobQueue("q", args).queue_name)
    assert f"{refused.value.property_path} {refused.value.reason}" == rule


def test_nobody_outside_reaches_the_pods_of_jobs(recorder: Any):
    args: JobNamespaceArgs = {"namespace": "jobs-a", "queues": {"q": "q-a"}}
    assert recorder.run(lambda: JobNamespace("jobs-a", args).namespace) == "jobs-a"
    policy = recorder.one("kubernetes:networking.k8s.io/v1:NetworkPolicy").inputs["spec"]
    assert policy["ingress"] == [{"from": [{"podSelector": {}}]}]
