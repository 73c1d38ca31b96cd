"""The pods of models whose nodes talk by RDMA: groups of hosts, and prefill and decode."""

from typing import Any

import pytest

from gke_inference.catalogue.input_error import InputError
from gke_inference.serving.model_objects import claims, deployments
from tests.model_plans import planned as plan_of

PAIR: dict[str, Any] = {
    "accelerator": "nvidia-h200-141gb",
    "count": 8,
    "hosts": 2,
    "provisioning": "spot",
}


@pytest.fixture
def on_pairs(gpu_only) -> dict[str, Any]:
    return {**gpu_only, "size": {"parameters_billion": 405.0}, "rungs": [PAIR]}


def planned(args: dict[str, Any]) -> Any:
    return plan_of(args)


def pods(args: dict[str, Any]) -> list[dict[str, Any]]:
    template = deployments(planned(args))["gpu"]["spec"]["leaderWorkerTemplate"]
    return [template["leaderTemplate"]["spec"], template["workerTemplate"]["spec"]]


def test_every_pod_of_a_group_claims_all_rdma_interfaces_of_its_node(on_pairs):
    template = claims(planned(on_pairs))["rdma"]
    assert template["metadata"]["name"] == "llama-8b-rdma"
    assert template["spec"]["spec"]["devices"]["requests"] == [
        {
            "name": "rdma",
            "exactly": {
                "allocationMode": "ExactCount",
                "count": 8,
                "deviceClassName": "mrdma.google.com",
            },
        }
    ]
    for pod in pods(on_pairs):
        assert pod["resourceClaims"] == [
            {"name": "rdma", "resourceClaimTemplateName": "llama-8b-rdma"}
        ]
        assert pod["containers"][0]["resources"]["claims"] == [{"name": "rdma"}]
        assert pod["nodeSelector"]["gke.networks.io/accelerator-network-profile"] == "auto"


def test_an_engine_with_rdma_may_lock_memory_and_nothing_else_of_the_host(on_pairs):
    for pod in pods(on_pairs):
        assert pod["securityContext"]["runAsUser"] == 0
        assert pod["containers"][0]["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"add": ["IPC_LOCK"], "drop": ["ALL"]},
        }
        assert not [volume for volume in pod["volumes"] if "hostPath" in volume]


def test_a_users_own_variable_is_not_written_twice(on_pairs):
    args = {**on_pairs, "settings": {"engine_env": {"NCCL_SOCKET_IFNAME": "eth1"}}}
    for pod in pods(args):
        found = [
            entry["value"]
            for entry in pod["containers"][0]["env"]
            if entry["name"] == "NCCL_SOCKET_IFNAME"
        ]
        assert found == ["eth1"]


def test_each_role_has_claims_of_its_own(gpu_only):
    rung = {key: value for key, value in PAIR.items() if key != "hosts"}
    args = {**gpu_only, "rungs": [{**rung, "network": "rdma"}], "role": "prefill"}
    assert claims(planned(args))["rdma"]["metadata"]["name"] == "llama-8b-prefill-rdma"


def test_a_group_on_tcp_claims_nothing_and_keeps_its_own_user(on_pairs):
    args = {**on_pairs, "rungs": [{**PAIR, "network": "tcp"}]}
    assert claims(planned(args)) == {}
    for pod in pods(args):
        assert "resourceClaims" not in pod
        assert pod["securityContext"]["runAsUser"] == 1000


def test_the_pods_of_a_group_with_rdma_are_in_one_zone(on_pairs):
    for pod in pods(on_pairs):
        (term,) = pod["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert term["topologyKey"] == "topology.kubernetes.io/zone"
        assert term["matchLabelKeys"] == ["leaderworkerset.sigs.k8s.io/group-index"]


def near(pod: dict[str, Any]) -> list[tuple[int, str, dict[str, str]]]:
    terms = pod["affinity"]["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    return [
        (
            each["weight"],
            each["podAffinityTerm"]["topologyKey"],
            each["podAffinityTerm"]["labelSelector"]["matchLabels"],
        )
        for each in terms
    ]


BLOCK = "cloud.google.com/gce-topology-block"
SUBBLOCK = "cloud.google.com/gce-topology-subblock"


def test_the_pods_of_a_group_with_rdma_prefer_nodes_close_to_each_other(on_pairs):
    for pod in pods(on_pairs):
        assert [(weight, key) for weight, key, _ in near(pod)] == [(20, BLOCK), (10, SUBBLOCK)]


def test_roles_with_rdma_prefer_nodes_close_to_the_other_role(gpu_only):
    rung = {key: value for key, value in PAIR.items() if key != "hosts"}
    args = {**gpu_only, "rungs": [{**rung, "network": "rdma"}]}
    model = {
        "app.kubernetes.io/component": "model-server",
        "app.kubernetes.io/name": "llama-8b",
    }
    for role in ("prefill", "decode"):
        template = deployments(planned({**args, "role": role}))["gpu"]["spec"]["template"]
        assert near(template["spec"]) == [(2, BLOCK, model), (1, SUBBLOCK, model)]
        assert model.items() <= template["metadata"]["labels"].items()


def test_the_pods_of_a_ray_cluster_claim_interfaces_too(on_pairs):
    (cluster,) = [
        obj
        for obj in deployments(planned({**on_pairs, "spanning": "kuberay"})).values()
        if obj["kind"] == "RayCluster"
    ][:1]
    groups = [cluster["spec"]["headGroupSpec"], *cluster["spec"]["workerGroupSpecs"]]
    for group in groups:
        assert group["template"]["spec"]["resourceClaims"] == [
            {"name": "rdma", "resourceClaimTemplateName": "llama-8b-rdma"}
        ]


def test_a_pod_for_tpu_or_gpu_has_no_rdma(args):
    rungs = [
        {"accelerator": "tpu-v6e", "topology": "2x4", "provisioning": "on-demand"},
        {**PAIR, "hosts": 1, "network": "rdma"},
    ]
    with pytest.raises(InputError, match="form: must be another form, or the network of"):
        planned({**args, "form": "dual-container", "rungs": rungs})
