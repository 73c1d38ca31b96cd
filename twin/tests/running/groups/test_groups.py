"""A model over a TPU slice: the program's objects, the real operator, requests over HTTP."""

import http.client
import json
import os
import signal
import threading
from contextlib import closing
from typing import Any

import pytest

from gke_inference.serving.model_objects import deployments, launcher_config
from tests.model_plans import planned
from twin.cluster.base.context import ClusterContext
from twin.tests.eventually import eventually
from twin.tests.running.agent.objects import grant_bucket
from twin.tests.running.classes import class_of
from twin.tests.running.sample import put_weights
from twin.wire.kube import Kube

pytestmark = pytest.mark.needs_tools
RUNG: Any = {
    "accelerator": "tpu-v6e",
    "provisioning": "on-demand",
    "topology": "4x4",
    "zones": ["us-east5-a", "us-east5-b"],
}
NAMESPACE = "models"
NAME = "llama-70b-tpu"
SET = f"/apis/leaderworkerset.x-k8s.io/v1/namespaces/{NAMESPACE}/leaderworkersets/{NAME}"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
LEADERS = "leaderworkerset.sigs.k8s.io/worker-index=0"
POOL = "cloud.google.com/gke-nodepool"


def plan() -> Any:
    args = {
        "cache_bucket": "acme-caches",
        "compute_classes": {"tpu": "large"},
        "context": 8192,
        "longest_request_seconds": 60,
        "model": "llama-70b",
        "namespace": NAMESPACE,
        "size": {"parameters_billion": 70.6},
        "replicas": {"min": 1, "max": 1},
        "served_name": "llama-3.1-70b",
        "service_account": "default",
        "weights": "gs://acme-models/llama-3.1-70b",
    }
    return planned({**args, "rungs": [RUNG]}, "us-east5")


@pytest.fixture(scope="module")
def groups(kube: Kube, context: ClusterContext) -> Kube:
    put_weights(context.paths.gcs / "acme-models" / "llama-3.1-70b")
    (context.paths.gcs / "acme-caches").mkdir()
    for bucket in ("acme-models", "acme-caches"):
        grant_bucket(context.paths, NAMESPACE, bucket, context.spec.project)
    kube.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    eventually(lambda: kube.get(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default"))
    large = class_of("large", RUNG)
    kube.apply(large, manager="test")
    made = plan()
    kube.apply(launcher_config(made), manager="test")
    kube.apply(deployments(made)["tpu"], manager="test")
    ready(kube, 1)
    return kube


def ready(kube: Kube, count: int) -> None:
    eventually(lambda: kube.get(SET)["status"].get("readyReplicas", 0) == count, 180)


def leaders(kube: Kube) -> list[dict[str, Any]]:
    return sorted(kube.list(PODS, label_selector=LEADERS), key=lambda pod: pod["metadata"]["name"])


def ask(pod: dict[str, Any], tokens: int = 4, timeout: float = 60.0) -> tuple[int, bytes]:
    """Ask a leader; (0, b"") where it hangs up without an answer."""
    connection = http.client.HTTPConnection(pod["status"]["podIP"], 8000, timeout=timeout)
    body = {"model": "llama-3.1-70b", "prompt": "Hello", "max_tokens": tokens, "ignore_eos": True}
    try:
        connection.request(
            "POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"}
        )
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (OSError, http.client.HTTPException):
        return 0, b""
    finally:
        connection.close()


def uids(kube: Kube) -> set[str]:
    return {pod["metadata"]["uid"] for pod in kube.list(PODS)}


def pid_of(pod: dict[str, Any]) -> int:
    container = pod["status"]["containerStatuses"][0]
    return int(container["containerID"].removeprefix("twin://"))


def test_a_group_stands_on_one_slice_and_its_leader_answers(groups: Kube):
    pods = groups.list(PODS)
    assert len(pods) == 4
    nodes = {
        pod["spec"]["nodeName"]: groups.get(f"/api/v1/nodes/{pod['spec']['nodeName']}")
        for pod in pods
    }
    assert len(nodes) == 4
    assert len({node["metadata"]["labels"][POOL] for node in nodes.values()}) == 1
    (leader,) = leaders(groups)
    status, body = ask(leader)
    assert status == 200, body
    assert leader["metadata"]["labels"]["gke-inference/model"] == "llama-70b"
    selected = groups.list(PODS, label_selector="gke-inference/model=llama-70b")
    assert [pod["metadata"]["name"] for pod in selected] == [f"{NAME}-0"]


def test_every_host_of_a_slice_is_told_who_it_is(groups: Kube):
    found: dict[str, str] = {}
    hosts: set[str] = set()
    for pod in groups.list(PODS):
        variables = {
            entry["name"]: entry.get("value", "") for entry in pod["spec"]["containers"][0]["env"]
        }
        found[pod["metadata"]["name"]] = variables["TPU_WORKER_ID"]
        hosts.add(variables["TPU_WORKER_HOSTNAMES"])
    assert found == {NAME + "-0": "0", **{f"{NAME}-0-{i}": str(i) for i in (1, 2, 3)}}
    assert hosts == {
        ",".join([f"{NAME}-0.{NAME}-0", *(f"{NAME}-0-{i}.{NAME}-0" for i in (1, 2, 3))])
    }


def test_a_worker_that_dies_fails_the_request_in_flight_and_its_group_comes_back(groups: Kube):
    before = uids(groups)
    (leader,) = leaders(groups)
    answers: list[tuple[int, bytes]] = []
    asking = threading.Thread(target=lambda: answers.append(ask(leader, 7000)))
    asking.start()
    address = leader["status"]["podIP"]
    eventually(lambda: running(address) == 1)
    worker = groups.get(f"{PODS}/{NAME}-0-2")
    os.kill(pid_of(worker), signal.SIGKILL)
    asking.join(60)
    assert [status for status, _ in answers] == [500], answers
    assert b"EngineCore encountered an issue" in answers[0][1]
    eventually(lambda: not uids(groups) & before, 120)
    ready(groups, 1)
    assert ask(leaders(groups)[0])[0] == 200


def page(address: str) -> str:
    with closing(http.client.HTTPConnection(address, 8000, timeout=5)) as connection:
        connection.request("GET", "/metrics")
        return connection.getresponse().read().decode()


def running(address: str) -> float:
    lines = [line for line in page(address).splitlines() if "num_requests_running{" in line]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


def test_a_second_group_has_a_slice_of_its_own(groups: Kube):
    scale = {"spec": {"replicas": 2}}
    assert groups.get(f"{SET}/scale")["status"]["selector"]
    groups.patch(f"{SET}/scale", scale)
    ready(groups, 2)
    pools = [
        groups.get(f"/api/v1/nodes/{pod['spec']['nodeName']}")["metadata"]["labels"][POOL]
        for pod in leaders(groups)
    ]
    assert len(set(pools)) == 2
    nodes = groups.list("/api/v1/nodes", label_selector="cloud.google.com/compute-class=large")
    assert len(nodes) == 8
    assert [ask(pod)[0] for pod in leaders(groups)] == [200, 200]


def test_a_set_that_is_deleted_leaves_no_pod_no_service_and_no_node(
    groups: Kube, context: ClusterContext
):
    groups.delete(SET, {"propagationPolicy": "Foreground"})
    eventually(lambda: not groups.list(PODS), 120)
    eventually(lambda: not groups.list(f"/api/v1/namespaces/{NAMESPACE}/services"))
    eventually(
        lambda: (
            not groups.list("/api/v1/nodes", label_selector="cloud.google.com/compute-class=large")
        ),
        120,
    )
    names = json.loads((context.dir / "names.json").read_text())
    assert [name for name in names if name.endswith(f".{NAMESPACE}")] == []
