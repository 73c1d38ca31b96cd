from typing import Any

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
        *(flavor_object(each) for each in FLAVORS),
        cohort_object("q", FLAVORS, {"a": TEAM}),
        team_queue("q", "a", TEAM, FLAVORS, preempt=True),
        flavor_object(GANG),
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


def test_a_flavor_without_chips_is_refused(recorder: Any):
    args: JobQueueArgs = {
        "flavors": [{**FLAVORS[0], "chips": 0}],
        "queue_name": "q",
        "teams": {"a": TEAM},
    }
    with pytest.raises(Exception, match="must be 1 to 100000"):
        recorder.run(lambda: JobQueue("q", args).queue_name)


def test_nobody_outside_reaches_the_pods_of_jobs(recorder: Any):
    args: JobNamespaceArgs = {"namespace": "jobs-a", "queues": {"q": "q-a"}}
    assert recorder.run(lambda: JobNamespace("jobs-a", args).namespace) == "jobs-a"
    policy = recorder.one("kubernetes:networking.k8s.io/v1:NetworkPolicy").inputs["spec"]
    assert policy["ingress"] == [{"from": [{"podSelector": {}}]}]
