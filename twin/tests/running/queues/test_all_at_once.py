"""Jobs of several pods whose nodes come together: the real Kueue and ProvisioningRequests."""

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
)
from twin.cluster.base.context import ClusterContext
from twin.cluster.nodes.node_objects import REQUEST_ANNOTATION
from twin.tests.eventually import eventually
from twin.tests.running.plane import ZONES
from twin.wire.kube import Kube
from twin.world.capacity import World

pytestmark = pytest.mark.needs_tools
FLAVOR: QueueFlavorArgs = {
    "chips": 4,
    "compute_class": "jobs-gang",
    "kind": "gpu",
    "max_run_seconds": 3600,
    "node_pool": "jobs-gang-0",
}
TEAM: QueueTeamArgs = {"chips": {"jobs-gang": 4}, "namespace": "jobs-train"}
NODES = "cloud.google.com/gke-nodepool=jobs-gang-0"
JOBS = "/apis/batch/v1/namespaces/jobs-train/jobs"
REQUESTS = "/apis/autoscaling.x-k8s.io/v1/namespaces/jobs-train/provisioningrequests"


@pytest.fixture(scope="module")
def queue(kube: Kube, context: ClusterContext) -> Kube:
    """The cluster with a queue over a pool of at most 4 nodes with queued provisioning."""
    gpu = {"count": 1, "type": "nvidia-l4"}
    taint = {"effect": "NO_SCHEDULE", "key": "cloud.google.com/gke-queued", "value": "true"}
    config = {
        "flexStart": True,
        "guestAccelerators": [gpu],
        "labels": {"cloud.google.com/gke-queued": "true"},
        "machineType": "g2-standard-12",
        "taints": [taint],
    }
    inputs = {
        "autoscaling": {"totalMaxNodeCount": 4, "totalMinNodeCount": 0},
        "nodeConfig": config,
        "queuedProvisioning": {"enabled": True},
    }
    pool = {"inputs": inputs, "name": "jobs-gang-0", "zones": list(ZONES)}
    (context.dir / "pools" / "jobs-gang-0.json").write_text(json.dumps(pool))
    asked = queued_objects("gang", FLAVOR)
    asked["request"]["spec"]["retryStrategy"]["backoffBaseSeconds"] = 1  # Kueue's clock is real
    made = [
        flavor_object(FLAVOR, "gang"),
        *asked.values(),
        cohort_object("gang", [FLAVOR], {"train": TEAM}),
        team_queue("gang", "train", TEAM, [FLAVOR], preempt=True),
        jobs_namespace("jobs-train"),
        local_queue("gang", "jobs-train", team_queue_name("gang", "train")),
    ]
    for obj in made:
        kube.apply(obj, manager="test")
    return kube


def world(context: ClusterContext, chips: int) -> None:
    line = {"zone": "*", "accelerator": "nvidia-l4", "provisioning": "flex-start", "chips": chips}
    World.model_validate({"stock": [line]}).save(context.paths.capacity_file)


def pod(**spec: Any) -> dict[str, Any]:
    limits = {"nvidia.com/gpu": "1"}
    # a job may have the image of a server, and ends all the same
    image = "vllm/vllm-openai:v0.32.0"
    container = {"image": image, "name": "work", "resources": {"limits": limits}}
    return {"containers": [container], "restartPolicy": "Never", **spec}


def job(name: str, pods: int) -> dict[str, Any]:
    labels = {"kueue.x-k8s.io/queue-name": "gang"}
    delay = {"pod-complete.stage.kwok.x-k8s.io/delay": "5s"}
    template = {"metadata": {"annotations": delay}, "spec": pod()}
    spec = {"completions": pods, "parallelism": pods, "template": template}
    return {"metadata": {"labels": labels, "name": name}, "spec": spec}


def succeeded(kube: Kube, name: str) -> int:
    return kube.get(f"{JOBS}/{name}")["status"].get("succeeded", 0)


def conditions(kube: Kube) -> set[str]:
    return {
        each["type"]
        for found in kube.list(REQUESTS)
        for each in found.get("status", {}).get("conditions", [])
        if each["status"] == "True"
    }


def test_a_job_starts_when_all_of_its_nodes_are_there(queue: Kube, context: ClusterContext):
    world(context, 1)
    pods = 2
    queue.post(JOBS, job("train", pods))
    # a pod of nobody's request brings no node, though one chip is there
    wanted = {"cloud.google.com/gke-nodepool": "jobs-gang-0"}
    alone = pod(nodeSelector=wanted, tolerations=[{"operator": "Exists"}])
    queue.post("/api/v1/namespaces/default/pods", {"metadata": {"name": "alone"}, "spec": alone})

    assert eventually(lambda: conditions(queue)) == {"Accepted"}
    (request,) = queue.list(REQUESTS)
    assert request["spec"]["parameters"] == {"maxRunDurationSeconds": "3600"}
    eventually(
        lambda: [
            each
            for each in queue.list("/api/v1/namespaces/default/events")
            if each["involvedObject"]["name"] == "alone" and each["reason"] == "NotTriggerScaleUp"
        ]
    )
    assert queue.get(f"{JOBS}/train")["spec"]["suspend"] is True
    assert not queue.list("/api/v1/nodes", label_selector=NODES)
    queue.delete("/api/v1/namespaces/default/pods/alone")

    world(context, 4)
    eventually(lambda: "Provisioned" in conditions(queue))
    nodes = queue.list("/api/v1/nodes", label_selector=NODES)
    assert len(nodes) == pods
    zones = {each["metadata"]["labels"]["topology.kubernetes.io/zone"] for each in nodes}
    assert len(zones) == 1
    # by which an autoscaler that starts again finds them
    kept = {each["metadata"]["annotations"][REQUEST_ANNOTATION] for each in nodes}
    assert kept == {request["metadata"]["uid"]}
    assert eventually(lambda: succeeded(queue, "train") == pods)
    eventually(lambda: not queue.list("/api/v1/nodes", label_selector=NODES), 90)


def test_a_job_starts_when_the_nodes_of_the_job_before_it_are_gone(
    queue: Kube, context: ClusterContext
):
    world(context, 4)
    queue.post(JOBS, job("first", 4))
    queue.post(JOBS, job("second", 4))
    eventually(lambda: succeeded(queue, "first") == 4, 90)
    eventually(lambda: succeeded(queue, "second") == 4, 120)
    refused = {each["message"] for each in context.events.read() if each["kind"] == "queued.failed"}
    assert "Max nodepool size reached, affected nodepools: jobs-gang-0" in refused


def test_a_request_without_a_pool_for_it_fails(queue: Kube):
    made = pod(nodeSelector={"cloud.google.com/gke-nodepool": "none"})
    template = {"metadata": {"name": "p"}, "template": {"spec": made}}
    queue.post("/api/v1/namespaces/jobs-train/podtemplates", template)
    body = {
        "apiVersion": "autoscaling.x-k8s.io/v1",
        "kind": "ProvisioningRequest",
        "metadata": {"name": "lost"},
        "spec": {
            "podSets": [{"count": 1, "podTemplateRef": {"name": "p"}}],
            "provisioningClassName": "queued-provisioning.gke.io",
        },
    }
    queue.post(REQUESTS, body)
    found = eventually(lambda: queue.get(f"{REQUESTS}/lost").get("status", {}).get("conditions"))
    assert [(each["type"], each["message"]) for each in found] == [
        ("Failed", "no node pool with queued provisioning is called 'none'")
    ]
