"""A group of two GPU nodes that claims RDMA interfaces, by the real scheduler."""

import copy
from typing import Any

import pytest

from gke_inference.serving.model_objects import claims, deployments, launcher_config
from tests.model_plans import planned
from twin.tests.eventually import eventually
from twin.tests.running.classes import class_of
from twin.wire.kube import Kube

pytestmark = pytest.mark.needs_tools
RUNG: Any = {
    "accelerator": "nvidia-h200-141gb",
    "count": 8,
    "hosts": 2,
    "provisioning": "spot",
    "zones": ["us-east5-a"],
    "allow_unlisted_zones": True,
}
NAMESPACE = "pairs"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
CLAIMS = f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaims"


def plan() -> Any:
    args = {
        "compute_classes": {"gpu": "pairs"},
        "context": 8192,
        "longest_request_seconds": 60,
        "model": "llama-405b",
        "namespace": NAMESPACE,
        "size": {"parameters_billion": 405.9},
        "replicas": {"min": 1, "max": 1},
        "served_name": "llama-3.1-405b",
        "service_account": "default",
        "weights": "gs://acme-models/llama-3.1-405b",
    }
    return planned({**args, "rungs": [RUNG]}, "us-east5")


@pytest.fixture(scope="module")
def pairs(kube: Kube) -> Kube:
    kube.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    eventually(lambda: kube.get(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default"))
    capacity = class_of("pairs", RUNG)
    kube.apply(capacity, manager="test")
    model = plan()
    for obj in (launcher_config(model), *claims(model).values(), *deployments(model).values()):
        kube.apply(obj, manager="test")
    return kube


def test_each_pod_of_a_group_has_the_eight_interfaces_of_a_node_of_its_own(pairs: Kube):
    def prepared() -> bool:
        pods = pairs.list(PODS)
        conditions = [
            {each["type"]: each["status"] for each in pod["status"].get("conditions", [])}
            for pod in pods
        ]
        started = [each.get("PodReadyToStartContainers") == "True" for each in conditions]
        return len(pods) == 2 and all(started)

    eventually(prepared, 90)
    taken: list[list[tuple[str, str]]] = []
    for claim in pairs.list(CLAIMS):
        results = claim["status"]["allocation"]["devices"]["results"]
        taken.append([(each["driver"], each["device"]) for each in results])
    assert taken == [[("dra.net", f"gpu{at}rdma0") for at in range(8)]] * 2
    nodes = {pod["spec"]["nodeName"] for pod in pairs.list(PODS)}
    assert len(nodes) == 2
    for name in nodes:
        labels = pairs.get(f"/api/v1/nodes/{name}")["metadata"]["labels"]
        assert labels["gke.networks.io/accelerator-network-profile"] == "auto"


def test_a_pod_that_claims_nine_interfaces_stays_pending_and_says_why(pairs: Kube):
    template = copy.deepcopy(claims(plan())["rdma"])
    template["metadata"]["name"] = "nine"
    template["spec"]["spec"]["devices"]["requests"][0]["exactly"]["count"] = 9
    pairs.apply(template, manager="test")
    leader = deployments(plan())["gpu"]["spec"]["leaderWorkerTemplate"]["leaderTemplate"]
    spec = copy.deepcopy(leader["spec"])
    spec["resourceClaims"][0]["resourceClaimTemplateName"] = "nine"
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "nine"}, "spec": spec}
    pairs.post(PODS, pod)

    def messages() -> str:
        path = f"/api/v1/namespaces/{NAMESPACE}/events"
        found = pairs.list(path, field_selector="involvedObject.name=nine")
        return " ".join(f"{each['reason']}: {each.get('message')}" for each in found)

    eventually(lambda: "cannot allocate all claims" in messages(), 90)
    assert "FailedScheduling" in messages()
    assert pairs.get(f"{PODS}/nine")["status"]["phase"] == "Pending"
    pairs.delete(f"{PODS}/nine")
