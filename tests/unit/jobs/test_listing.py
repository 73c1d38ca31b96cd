"""The state of a job, and the reason that `jobs` shows for it."""

from typing import Any

import pytest

from gke_inference.base.job_sets import UID_LABEL
from scripts.jobs.command import jobs
from scripts.jobs.listing import QUEUE_LABEL, find_jobs, state_of
from scripts.shared.clusters import Cluster
from scripts.terminal.console import CommandError
from twin.wire.kube import KubeError

NO_SHARE = "insufficient unused quota for google.com/tpu in flavor spot, 4 more needed"
WAITS = {"message": NO_SHARE, "status": "False", "type": "QuotaReserved"}
HAS = {"message": "", "status": "True", "type": "QuotaReserved"}
ADMITTED = {"message": "", "status": "True", "type": "Admitted"}
ENDED = {"message": "Retries are used up", "status": "True", "type": "Evicted"}
TAKEN = {"message": "Preempted by another", "status": "True", "type": "Preempted"}


def job(*conditions: str, queue: str | None = "chips", **message: str) -> dict[str, Any]:
    labels = {} if queue is None else {QUEUE_LABEL: queue}
    return {
        "metadata": {
            "creationTimestamp": "2026-11-23T08:00:00Z",
            "labels": labels,
            "name": "nightly",
            "uid": "j",
        },
        "spec": {
            "parallelism": 2,
            "template": {
                "spec": {
                    "containers": [
                        {"resources": {"limits": {"cpu": "8", "google.com/tpu": "4"}}},
                        {},
                    ]
                }
            },
        },
        "status": {
            "conditions": [{"status": "True", "type": each, **message} for each in conditions]
        },
    }


def workload(*conditions: dict[str, str], active: bool = True) -> dict[str, Any]:
    sets = [{"flavors": {"google.com/tpu": "spot"}, "name": "main"}]
    return {
        "metadata": {"ownerReferences": [{"uid": "j"}]},
        "spec": {"active": active, "queueName": "chips"},
        "status": {"admission": {"podSetAssignments": sets}, "conditions": list(conditions)},
    }


def checked(message: str) -> dict[str, Any]:
    found = workload(HAS)
    check = {"message": message, "name": "gang", "state": "Pending"}
    return {**found, "status": {**found["status"], "admissionChecks": [check]}}


def pod(phase: str = "Pending", **spec: str) -> dict[str, Any]:
    metadata = {"namespace": "jobs-a", "ownerReferences": [{"uid": "j"}], "uid": "p"}
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("found", "held", "pods", "expected"),
    [
        (job("Complete"), workload(HAS, ADMITTED), [pod("Succeeded")], ("succeeded", "")),
        (job("Completed"), workload(HAS, ADMITTED), [], ("succeeded", "")),
        (job("Failed", message="too many"), None, [], ("failed", "too many")),
        (job(queue=None), None, [], ("held", f"it names no queue in its label {QUEUE_LABEL}")),
        (job(), None, [], ("queued", "")),
        (job(), workload(WAITS), [], ("queued", NO_SHARE)),
        (job(), workload(WAITS, TAKEN), [], ("preempted", NO_SHARE)),
        (job(), workload(HAS, TAKEN), [], ("preempted", "Preempted by another")),
        (job(), checked("Waiting for 2 nodes."), [], ("waiting for nodes", "Waiting for 2 nodes.")),
        (job(), workload(WAITS, ENDED, active=False), [], ("stopped", "Retries are used up")),
        (job(), workload(HAS, ADMITTED, active=False), [pod()], ("stopped", "")),
        (job(), workload(HAS, ENDED), [], ("queued", "")),
        (job(), workload(HAS, ADMITTED), [pod()], ("waiting for nodes", "no node")),
        (job(), workload(HAS, ADMITTED), [pod(nodeName="n")], ("starting", "")),
        (job(), workload(HAS, ADMITTED), [pod("Running", nodeName="n")], ("running", "")),
    ],
)
def test_the_state_of_a_job_has_its_reason(
    found: Any, held: Any, pods: Any, expected: tuple[str, str]
) -> None:
    assert state_of(found, held, pods, lambda _: "no node") == expected


class Answers:
    """An API server with one job in the namespace of one team, and with sets of jobs or without."""

    def __init__(self, sets: list[dict[str, Any]] | None = None) -> None:
        self.sets = sets

    def list(self, path: str, label_selector: str | None = None) -> list[dict[str, Any]]:
        if path == "/api/v1/namespaces":
            assert label_selector == "gke-inference/jobs=queued"
            return [{"metadata": {"name": "jobs-a"}}]
        if path.endswith("/jobsets") and self.sets is None:
            raise KubeError(404, "NotFound", path, {})
        old = {"lastTimestamp": "2026-11-23T08:00:01Z", "reason": "TriggeredScaleUp"}
        new = {"lastTimestamp": "2026-11-23T08:00:09Z", "reason": "FailedScaleUp"}
        other = {"lastTimestamp": "2026-11-23T08:00:10Z", "reason": "Scheduled"}
        return {
            "jobs": [job()] if self.sets is None else [child()],
            "jobsets": self.sets or [],
            "workloads": [workload(HAS, ADMITTED)],
            "pods": [pod()],
            "events": [
                {"involvedObject": {"uid": "p"}, "message": f"of {each['reason']}", **each}
                for each in (old, new, other)
            ],
        }[path.rpartition("/")[2]]


def child() -> dict[str, Any]:
    made = job(queue=None)
    made["metadata"]["labels"] = {UID_LABEL: "j"}
    return made


def test_a_set_of_jobs_is_one_line_with_the_chips_of_all_its_pods() -> None:
    engine = {"resources": {"limits": {"google.com/tpu": "4"}}}
    leader = {"spec": {"template": {"spec": {"containers": [{}], "initContainers": [engine]}}}}
    worker = {"spec": {"parallelism": 1, "template": {"spec": {"containers": [engine]}}}}
    made = job()
    made["spec"] = {
        "replicatedJobs": [
            {"name": "leader", "replicas": 1, "template": leader},
            {"name": "workers", "replicas": 3, "template": worker},
        ]
    }
    kube: Any = Answers([made])
    (found,) = find_jobs([Cluster("c", "us-east5", kube)])
    assert (found.job, found.chips, found.queue) == ("nightly", 16, "chips")
    assert found.state == "waiting for nodes"


def test_a_job_without_a_node_shows_the_last_word_of_the_autoscaler() -> None:
    kube: Any = Answers()
    (found,) = find_jobs([Cluster("c", "us-east5", kube)])
    assert found.as_json() == {
        "chips": 8,
        "cluster": "c",
        "flavor": "spot",
        "job": "nightly",
        "queue": "chips",
        "reason": "FailedScaleUp: of FailedScaleUp",
        "state": "waiting for nodes",
        "team": "jobs-a",
    }


def test_a_stack_without_a_cluster_is_not_up(monkeypatch, tmp_path):
    monkeypatch.setenv("GKE_INFERENCE_TWIN_DIR", str(tmp_path / "none"))
    with pytest.raises(CommandError, match="must be a stack that is up, got 'local'"):
        jobs("local")
