"""Jobs that ask for nodes in one block: the real Kueue, and nodes that Google places together."""

import json
from typing import Any

import pytest

from gke_inference.queues.job_namespace import jobs_namespace, local_queue
from gke_inference.queues.job_queue import (
    QueueFlavorArgs,
    QueueTeamArgs,
    cohort_object,
    flavor_object,
    queued_objects,
    team_queue,
    team_queue_name,
    topology_object,
)
from twin.cluster.base.context import ClusterContext
from twin.tests.eventually import eventually
from twin.tests.running.plane import ZONES
from twin.wire.kube import Kube
from twin.world.capacity import World

pytestmark = pytest.mark.needs_tools
FLAVOR: QueueFlavorArgs = {
    "chips": 32,
    "compute_class": "jobs-near",
    "kind": "gpu",
    "node_pool": "jobs-near-0",
    "topology": True,
}
TEAM: QueueTeamArgs = {"chips": {"jobs-near": 32}, "namespace": "jobs-near"}
BLOCK = "cloud.google.com/gce-topology-block"
SUBBLOCK = "cloud.google.com/gce-topology-subblock"
JOBS = "/apis/batch/v1/namespaces/jobs-near/jobs"
PODS = "/api/v1/namespaces/jobs-near/pods"


@pytest.fixture(scope="module")
def queue(kube: Kube, context: ClusterContext) -> Kube:
    """The cluster with a queue that knows the location of nodes with eight GPUs."""
    taint = {"effect": "NO_SCHEDULE", "key": "cloud.google.com/gke-queued", "value": "true"}
    config = {
        "flexStart": True,
        "guestAccelerators": [{"count": 8, "type": "nvidia-h200-141gb"}],
        "labels": {"cloud.google.com/gke-queued": "true"},
        "machineType": "a3-ultragpu-8g",
        "taints": [taint],
    }
    inputs = {
        "autoscaling": {"totalMaxNodeCount": 4, "totalMinNodeCount": 0},
        "nodeConfig": config,
        "queuedProvisioning": {"enabled": True},
    }
    pool = {"inputs": inputs, "name": "jobs-near-0", "zones": list(ZONES)}
    (context.dir / "pools" / "jobs-near-0.json").write_text(json.dumps(pool))
    World.model_validate({"default": "plenty"}).save(context.paths.capacity_file)
    for obj in (
        topology_object("near"),
        flavor_object(FLAVOR, "near"),
        *queued_objects("near", FLAVOR).values(),
        cohort_object("near", [FLAVOR], {"near": TEAM}),
        team_queue("near", "near", TEAM, [FLAVOR], preempt=True),
        jobs_namespace("jobs-near"),
        local_queue("near", "jobs-near", team_queue_name("near", "near")),
    ):
        kube.apply(obj, manager="test")
    return kube


def job(name: str, pods: int, **annotations: str) -> dict[str, Any]:
    container = {
        "image": "vllm/vllm-openai:v0.32.0",
        "name": "work",
        "resources": {"limits": {"nvidia.com/gpu": "8"}},
    }
    delay = {"pod-complete.stage.kwok.x-k8s.io/delay": "5s"}
    template = {
        "metadata": {"annotations": {**delay, **annotations}},
        "spec": {"containers": [container], "restartPolicy": "Never"},
    }
    return {
        "metadata": {"labels": {"kueue.x-k8s.io/queue-name": "near"}, "name": name},
        "spec": {
            "completionMode": "Indexed",
            "completions": pods,
            "parallelism": pods,
            "template": template,
        },
    }


def test_the_pods_of_a_job_that_requires_a_block_are_on_nodes_of_one_block(queue: Kube):
    queue.post(JOBS, job("train", 3, **{"kueue.x-k8s.io/podset-required-topology": BLOCK}))
    eventually(lambda: queue.get(f"{JOBS}/train")["status"].get("succeeded", 0) == 3, 120)
    nodes = {pod["spec"]["nodeName"] for pod in queue.list(PODS)}
    selectors = {pod["spec"]["nodeSelector"]["kubernetes.io/hostname"] for pod in queue.list(PODS)}
    assert nodes == selectors
    assert len(nodes) == 3
