"""Jobs of two teams that share spot chips: the real Kueue, GKE's autoscaler, jobs that end."""

from typing import Any

import pytest

from gke_inference.queues.job_namespace import jobs_namespace, local_queue
from gke_inference.queues.job_queue import (
    QueueFlavorArgs,
    QueueTeamArgs,
    cohort_object,
    flavor_object,
    team_queue,
    team_queue_name,
)
from twin.cluster.base.context import ClusterContext
from twin.tests.eventually import eventually
from twin.tests.running.classes import class_of
from twin.tests.running.plane import ZONES
from twin.wire.kube import Kube
from twin.world.capacity import World

pytestmark = pytest.mark.needs_tools
QUEUE = "chips"
RUNG: Any = {
    "accelerator": "tpu-v6e",
    "provisioning": "spot",
    "topology": "2x2",
    "zones": list(ZONES),
}
FLAVORS: list[QueueFlavorArgs] = [{"chips": 16, "compute_class": "jobs-spot", "kind": "tpu"}]
TEAMS: dict[str, QueueTeamArgs] = {
    "research": {"chips": {"jobs-spot": 8}, "namespace": "jobs-research"},
    "evals": {"chips": {"jobs-spot": 8}, "namespace": "jobs-evals"},
}
DELAY = "pod-complete.stage.kwok.x-k8s.io/delay"
LONG = "1h"


@pytest.fixture(scope="module")
def queue(kube: Kube) -> Kube:
    """The cluster with a queue of 16 chips, 8 of each team."""
    made = [
        class_of("jobs-spot", RUNG),
        *(flavor_object(each, "gpus") for each in FLAVORS),
        cohort_object(QUEUE, FLAVORS, TEAMS),
    ]
    for team, share in TEAMS.items():
        made.append(jobs_namespace(share["namespace"]))
        made.append(team_queue(QUEUE, team, share, FLAVORS, preempt=True))
        made.append(local_queue(QUEUE, share["namespace"], team_queue_name(QUEUE, team)))
    for obj in made:
        kube.apply(obj, manager="test")
    return kube


@pytest.fixture(autouse=True)
def clean(queue: Kube, context: ClusterContext) -> Any:
    """Leave no job and all chips."""
    World().save(context.paths.capacity_file)
    yield
    for team in TEAMS:
        for found in queue.list(jobs(team)):
            path = f"{jobs(team)}/{found['metadata']['name']}"
            queue.delete(path, {"propagationPolicy": "Background"})
        eventually(lambda team=team: not queue.list(workloads(team)))


def jobs(team: str) -> str:
    return f"/apis/batch/v1/namespaces/jobs-{team}/jobs"


def workloads(team: str) -> str:
    return f"/apis/kueue.x-k8s.io/v1beta2/namespaces/jobs-{team}/workloads"


def submit(
    kube: Kube, team: str, name: str, *, lasts: str = LONG, queue: str | None = QUEUE, **labels: str
) -> None:
    """Submit a job of one pod on the four chips of a node."""
    if queue is not None:
        labels["kueue.x-k8s.io/queue-name"] = queue
    container = {
        "image": "python:3.12",
        "name": "work",
        "resources": {
            "limits": {"google.com/tpu": "4"},
            "requests": {"cpu": "1", "google.com/tpu": "4"},
        },
    }
    pod = {"containers": [container], "restartPolicy": "Never"}
    template = {"metadata": {"annotations": {DELAY: lasts}}, "spec": pod}
    body = {"metadata": {"labels": labels, "name": name}, "spec": {"template": template}}
    kube.post(jobs(team), body)


def active(kube: Kube, team: str) -> set[str]:
    """Return the jobs of a team that have a pod on a node."""
    pods = kube.list(f"/api/v1/namespaces/jobs-{team}/pods")
    return {
        pod["metadata"]["labels"]["job-name"]
        for pod in pods
        if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
    }


def condition(kube: Kube, team: str, job: str, kind: str) -> dict[str, Any] | None:
    for found in kube.list(workloads(team)):
        if found["metadata"]["ownerReferences"][0]["name"] == job:
            conditions = found.get("status", {}).get("conditions", [])
            return next((each for each in conditions if each["type"] == kind), None)
    return None


def test_a_team_borrows_and_the_owner_takes_its_chips_back(queue: Kube):
    names = {f"train-{number}" for number in range(5)}
    for name in sorted(names):
        submit(queue, "research", name)
    eventually(lambda: len(active(queue, "research")) == 4, 60)
    waiting = (names - active(queue, "research")).pop()
    reserved = eventually(lambda: condition(queue, "research", waiting, "QuotaReserved"))
    assert reserved["status"] == "False"
    assert "insufficient unused quota for google.com/tpu in flavor jobs-spot" in reserved["message"]

    submit(queue, "evals", "check-0", lasts="1s")
    done = eventually(lambda: queue.get(f"{jobs('evals')}/check-0")["status"].get("succeeded"), 60)
    assert done == 1
    evicted = [
        found["message"]
        for name in names
        if (found := condition(queue, "research", name, "Preempted")) is not None
    ]
    assert len(evicted) == 1
    assert "reclamation within the cohort" in evicted[0]
    # its chips are free again: the job that lost them, or the one that waited, has them
    eventually(lambda: len(active(queue, "research")) == 4, 60)


def test_a_job_waits_for_chips_out_of_stock_and_ends_once_they_are_back(
    queue: Kube, context: ClusterContext
):
    none = World.model_validate({"stock": [{"zone": "*", "accelerator": "tpu-v6e", "chips": 0}]})
    none.save(context.paths.capacity_file)
    eventually(
        lambda: not queue.list("/api/v1/nodes", label_selector="cloud.google.com/gke-spot"), 60
    )
    submit(queue, "evals", "late", lasts="1s")
    eventually(lambda: condition(queue, "evals", "late", "Admitted"))
    events = eventually(
        lambda: [
            each["message"]
            for each in queue.list("/api/v1/namespaces/jobs-evals/events")
            if each["reason"] == "FailedScaleUp"
        ],
        60,
    )
    assert "GCE_STOCKOUT" in events[0] or "out of resources" in events[0]
    assert not queue.get(f"{jobs('evals')}/late")["status"].get("succeeded")
    World().save(context.paths.capacity_file)
    done = eventually(lambda: queue.get(f"{jobs('evals')}/late")["status"].get("succeeded"), 60)
    assert done == 1


def test_a_job_that_loses_its_spot_node_gets_another(queue: Kube, context: ClusterContext):
    submit(queue, "evals", "moved")
    eventually(lambda: active(queue, "evals") == {"moved"}, 60)
    (first,) = queue.list("/api/v1/namespaces/jobs-evals/pods")
    none = {"stock": [{"zone": "*", "accelerator": "tpu-v6e", "chips": 0}]}
    World.model_validate(none).save(context.paths.capacity_file)
    eventually(lambda: not active(queue, "evals"), 60)
    World().save(context.paths.capacity_file)
    eventually(lambda: active(queue, "evals") == {"moved"}, 60)
    names = {each["metadata"]["name"] for each in queue.list("/api/v1/namespaces/jobs-evals/pods")}
    assert first["metadata"]["name"] not in names


def test_a_job_of_high_priority_takes_the_chips_of_its_own_team(queue: Kube):
    for number in range(2):
        submit(queue, "evals", f"low-{number}", **{"kueue.x-k8s.io/priority-class": "low"})
        submit(queue, "research", f"full-{number}")
    eventually(lambda: len(active(queue, "evals") | active(queue, "research")) == 4, 60)
    submit(queue, "evals", "urgent", **{"kueue.x-k8s.io/priority-class": "high"})
    eventually(lambda: "urgent" in active(queue, "evals"), 60)
    assert len(active(queue, "evals")) == 2
    assert len(active(queue, "research")) == 2


def test_a_job_that_names_no_queue_does_not_start(queue: Kube):
    submit(queue, "evals", "unnamed", queue=None)
    assert queue.get(f"{jobs('evals')}/unnamed")["spec"]["suspend"] is True
    queue.post(
        "/apis/batch/v1/namespaces/default/jobs",
        {
            "metadata": {"name": "elsewhere"},
            "spec": {
                "template": {
                    "spec": {
                        "containers": [{"image": "python:3.12", "name": "work"}],
                        "restartPolicy": "Never",
                    }
                }
            },
        },
    )
    assert not queue.get("/apis/batch/v1/namespaces/default/jobs/elsewhere")["spec"]["suspend"]
