"""A queue of one slice of four hosts."""

from typing import Any

from gke_inference.queues.job_namespace import jobs_namespace, local_queue
from gke_inference.queues.job_queue import (
    QueueFlavorArgs,
    QueueTeamArgs,
    cohort_object,
    flavor_object,
    team_queue,
    team_queue_name,
)
from twin.tests.running.classes import class_of
from twin.tests.running.plane import ZONES
from twin.wire.kube import Kube

QUEUE, TEAM, SPACE = "slices", "nightly", "jobs-nightly"
HOSTS = 4
RUNG: Any = {
    "accelerator": "tpu-v6e",
    "provisioning": "spot",
    "topology": "4x4",
    "zones": list(ZONES),
}
FLAVORS: list[QueueFlavorArgs] = [{"chips": 16, "compute_class": "jobs-slices", "kind": "tpu"}]
TEAMS: dict[str, QueueTeamArgs] = {TEAM: {"chips": {"jobs-slices": 16}, "namespace": SPACE}}
SETS = f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{SPACE}/jobsets"
PODS = f"/api/v1/namespaces/{SPACE}/pods"


def queue_of_slices(kube: Kube) -> None:
    """Apply the objects of the queue."""
    made = [
        class_of("jobs-slices", RUNG),
        *(flavor_object(each, QUEUE) for each in FLAVORS),
        cohort_object(QUEUE, FLAVORS, TEAMS),
        jobs_namespace(SPACE),
        team_queue(QUEUE, TEAM, TEAMS[TEAM], FLAVORS, preempt=True),
        local_queue(QUEUE, SPACE, team_queue_name(QUEUE, TEAM)),
    ]
    for obj in made:
        kube.apply(obj, manager="test")
