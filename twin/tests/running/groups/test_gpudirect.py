"""Groups of two nodes with GPUDirect-TCPX or -TCPXO, by real admission and the real scheduler."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from gke_inference.catalogue.accelerators import accelerator
from gke_inference.catalogue.node_networks import interface_network
from gke_inference.catalogue.rungs import check_rung
from gke_inference.operators.accelerator_interfaces import interface_objects
from gke_inference.serving.model_objects import deployments, launcher_config
from tests.model_plans import planned
from twin.cluster.agent import records
from twin.cluster.base.context import ClusterContext
from twin.tests.eventually import eventually
from twin.tests.running.classes import class_of
from twin.wire.kube import Kube
from twin.world.store import Store, new_record

pytestmark = pytest.mark.needs_tools
MEGA: Any = {
    "accelerator": "nvidia-h100-mega-80gb",
    "count": 8,
    "hosts": 2,
    "network": "tcpxo",
    "node_pools": ["mega"],
    "provisioning": "spot",
    "zones": ["us-east5-a"],
    "allow_unlisted_zones": True,
}
HIGH: Any = {
    **MEGA,
    "accelerator": "nvidia-h100-80gb",
    "network": "tcpx",
    "node_pools": ["high"],
}
PODS = "/api/v1/namespaces/mega/pods"
NETWORKS = "/apis/networking.gke.io/v1/networks"
PARAMETERS = "/apis/networking.gke.io/v1/gkenetworkparamsets"
VPCS = [f"mega-{at}" for at in range(1, 9)]
TCPXO = interface_network("tcpxo")
RESOURCES = {f"networking.gke.io.networks/tcpxo-{at}.IP": "1" for at in range(1, 9)}


def plan(name: str, rung: Any) -> Any:
    args = {
        "compute_classes": {"gpu": name},
        "context": 8192,
        "longest_request_seconds": 60,
        "model": f"llama-405b-{name}",
        "namespace": name,
        "size": {"parameters_billion": 405.9, "bits": 8},
        "replicas": {"min": 1, "max": 1},
        "served_name": "llama-3.1-405b",
        "service_account": "default",
        "weights": "gs://acme-models/llama-3.1-405b",
    }
    return planned({**args, "rungs": [rung]}, "us-east5")


def in_the_cloud(context: ClusterContext, vpcs: list[str]) -> None:
    """Put networks and subnets of interfaces into the cloud, and the cluster before the first."""
    store, project = Store(context.paths.cloud_db), context.spec.project

    def put(token: str, name: str, **outputs: Any) -> None:
        values = {"name": name, **outputs}
        store.add(new_record(token, f"{token}/{name}", name, project, name, values, values), [])

    if not store.find("gcp:container/cluster:Cluster", "test"):
        put("gcp:container/cluster:Cluster", "test", enableMultiNetworking=True, network="net")
    first = len(store.find("gcp:compute/network:Network"))
    for at, name in enumerate(vpcs, first):
        put("gcp:compute/network:Network", name)
        cidr = f"192.168.{at}.0/24"
        put("gcp:compute/subnetwork:Subnetwork", name, ipCidrRange=cidr, region="us-east5")


def pool_file(name: str, rung: Any, vpcs: list[str]) -> dict[str, Any]:
    configs = [{"network": vpc, "subnetwork": vpc} for vpc in vpcs]
    inputs = {
        "autoscaling": {"totalMaxNodeCount": 4, "totalMinNodeCount": 0},
        "networkConfig": {"additionalNodeNetworkConfigs": configs},
        "nodeConfig": {
            "guestAccelerators": [
                {
                    "count": 8,
                    "gpuDriverInstallationConfig": {"gpuDriverVersion": "LATEST"},
                    "type": accelerator(rung["accelerator"]).gke_type,
                }
            ],
            "labels": {"cloud.google.com/compute-class": name},
            "machineType": check_rung(rung, region="us-east5").machine_type,
            "spot": True,
            "taints": [
                {
                    "effect": "NO_SCHEDULE",
                    "key": "cloud.google.com/compute-class",
                    "value": name,
                }
            ],
        },
        "project": "acme",
    }
    return {"digest": "1", "inputs": inputs, "name": name, "zones": ["us-east5-a"]}


def deploy(context: ClusterContext, kube: Kube, name: str, rung: Any) -> None:
    """Deploy a model on two nodes, with its node pool, networks and agents."""
    network = interface_network(str(rung.get("network")))
    vpcs = [f"{name}-{at}" for at in range(1, network.interfaces + 1)]
    in_the_cloud(context, vpcs)
    kube.post("/api/v1/namespaces", {"metadata": {"name": name}})
    eventually(lambda: kube.get(f"/api/v1/namespaces/{name}/serviceaccounts/default"))
    for obj in interface_objects(network, vpcs, vpcs).values():
        kube.apply(obj, manager="test")
    pool = context.dir / "pools" / f"{name}.json"
    pool.write_text(json.dumps(pool_file(name, rung, vpcs)))
    capacity = class_of(name, rung)
    kube.apply(capacity, manager="test")
    model = plan(name, rung)
    for obj in (launcher_config(model), *deployments(model).values()):
        kube.apply(obj, manager="test")


def networks_of_engines(context: ClusterContext, namespace: str) -> set[str]:
    """Return what the simulated engines of a namespace send over."""
    found: set[str] = set()
    for file in (context.dir / "pods" / namespace).glob("*/*.process.json"):
        record = records.read(file)
        if record is not None and record.alive:
            lines = Path(f"/proc/{record.pid}/environ").read_text().split("\0")
            found |= {line for line in lines if line.startswith("GKE_INFERENCE_SIM_NETWORK=")}
    return found


@pytest.fixture(scope="module")
def mega(context: ClusterContext, kube: Kube) -> Kube:
    deploy(context, kube, "mega", MEGA)
    return kube


def status(kube: Kube, path: str) -> dict[str, tuple[str, str]]:
    conditions = kube.get(path).get("status", {}).get("conditions", [])
    return {each["type"]: (each["status"], each["reason"]) for each in conditions}


def test_each_pod_of_a_group_has_all_interfaces_of_a_node_of_its_own(mega: Kube):
    def started() -> bool:
        pods = mega.list(PODS)
        ready = [
            each["status"] == "True"
            for pod in pods
            for each in pod["status"].get("conditions", [])
            if each["type"] == "PodReadyToStartContainers"
        ]
        return len(pods) == 2 and len(ready) == 2 and all(ready)

    eventually(started, 120)
    pods = mega.list(PODS)
    for pod in pods:
        asked = pod["spec"]["containers"][0]["resources"]
        for kind in ("limits", "requests"):
            assert asked[kind].items() >= RESOURCES.items()
    names = {pod["spec"]["nodeName"] for pod in pods}
    assert len(names) == 2
    for name in names:
        assert mega.get(f"/api/v1/nodes/{name}")["status"]["allocatable"].items() >= (
            RESOURCES.items()
        )
    assert status(mega, f"{PARAMETERS}/tcpxo-1") == {"Ready": ("True", "GNPReady")}
    assert status(mega, f"{NETWORKS}/tcpxo-1")["ParamsReady"] == ("True", "GNPParamsReady")


def test_the_engine_of_the_group_sends_over_the_interfaces(mega: Kube, context: ClusterContext):
    expected = {"GKE_INFERENCE_SIM_NETWORK=tcpxo"}
    eventually(lambda: networks_of_engines(context, "mega") == expected, 120)


def test_parameters_of_a_subnet_that_does_not_exist_are_not_ready_and_say_why(mega: Kube):
    (obj,) = [
        each
        for each in interface_objects(TCPXO, VPCS, VPCS).values()
        if each["kind"] == "GKENetworkParamSet" and each["metadata"]["name"] == "tcpxo-1"
    ]
    wrong = copy.deepcopy(obj)
    wrong["metadata"]["name"] = "wrong"
    wrong["spec"]["vpcSubnet"] = "nowhere"
    mega.apply(wrong, manager="test")
    eventually(lambda: status(mega, f"{PARAMETERS}/wrong"), 30)
    assert status(mega, f"{PARAMETERS}/wrong") == {"Ready": ("False", "SubnetNotFound")}
    mega.delete(f"{PARAMETERS}/wrong")


def test_a_pod_on_a_network_that_no_node_has_stays_pending_and_says_why(mega: Kube):
    interfaces = [
        {"interfaceName": "eth0", "network": "default"},
        {"interfaceName": "eth1", "network": "elsewhere"},
    ]
    container = {"image": "registry.k8s.io/pause:3.10", "name": "main"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "annotations": {"networking.gke.io/interfaces": json.dumps(interfaces)},
            "name": "elsewhere",
        },
        "spec": {"containers": [container], "serviceAccountName": "default"},
    }
    mega.post(PODS, pod)

    def messages() -> str:
        path = "/api/v1/namespaces/mega/events"
        found = mega.list(path, field_selector="involvedObject.name=elsewhere")
        return " ".join(f"{each['reason']}: {each.get('message')}" for each in found)

    eventually(lambda: "networking.gke.io.networks/elsewhere.IP" in messages(), 60)
    assert "FailedScheduling" in messages()
    assert mega.get(f"{PODS}/elsewhere")["status"]["phase"] == "Pending"
    mega.delete(f"{PODS}/elsewhere")


@pytest.mark.soak  # the tests above have a group on A3 Mega
def test_a_group_on_a3_high_sends_over_its_four_interfaces(kube: Kube, context: ClusterContext):
    # The last test: the injector of devices moves to these nodes.
    deploy(context, kube, "high", HIGH)
    expected = {"GKE_INFERENCE_SIM_NETWORK=tcpx"}
    eventually(lambda: networks_of_engines(context, "high") == expected, 180)
    pods = kube.list("/api/v1/namespaces/high/pods")
    asked = {f"networking.gke.io.networks/tcpx-{at}.IP": "1" for at in range(1, 5)}
    for pod in pods:
        assert pod["spec"]["containers"][0]["resources"]["limits"].items() >= asked.items()
    assert len({pod["spec"]["nodeName"] for pod in pods}) == 2
