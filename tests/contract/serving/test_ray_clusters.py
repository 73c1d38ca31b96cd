"""A model over several GPU nodes as Ray clusters of KubeRay."""

import copy
from typing import Any

import pulumi
import pytest

from gke_inference.catalogue.rungs import check_rung
from gke_inference.serving.hardware import hardware
from gke_inference.serving.invariants import broken_ray_cluster
from gke_inference.serving.launcher.spec import NEEDS, REPLICAS
from gke_inference.serving.model_objects import cluster_sets, deployments, disruption_budget
from gke_inference.serving.model_server import ModelServer
from tests.contract.components_k8s import crds
from tests.model_plans import planned

NODES: dict[str, Any] = {
    "accelerator": "nvidia-h100-80gb",
    "count": 8,
    "hosts": 3,
    "network": "tcp",
    "provisioning": "spot",
}
SLICE: dict[str, Any] = {
    "accelerator": "tpu-v6e",
    "provisioning": "on-demand",
    "topology": "4x4",
}


@pytest.fixture
def on_ray(gpu_only) -> dict[str, Any]:
    """Two replicas of three nodes each."""
    return {
        **gpu_only,
        "size": {"parameters_billion": 405.0},
        "rungs": [NODES],
        "spanning": "kuberay",
    }


def plan_of(args: dict[str, Any]) -> Any:
    return planned(args)


def templates(cluster: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    (workers,) = cluster["spec"]["workerGroupSpecs"]
    return cluster["spec"]["headGroupSpec"]["template"], workers["template"]


def containers(cluster: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    head, worker = templates(cluster)
    return head["spec"]["containers"][0], worker["spec"]["containers"][0]


def test_each_replica_is_a_ray_cluster_with_a_pod_on_each_host(on_ray):
    made = deployments(plan_of(on_ray))
    assert {kind: obj["metadata"]["name"] for kind, obj in made.items()} == {
        "gpu-0": "llama-8b-gpu-0",
        "gpu-1": "llama-8b-gpu-1",
    }
    for cluster in made.values():
        assert (cluster["apiVersion"], cluster["kind"]) == ("ray.io/v1", "RayCluster")
        (workers,) = cluster["spec"]["workerGroupSpecs"]
        sizes = [workers[key] for key in ("minReplicas", "replicas", "maxReplicas")]
        assert sizes == [2, 2, 2]
        assert cluster["metadata"]["annotations"]["ray.io/overwrite-container-cmd"] == "true"
        for container in containers(cluster):
            assert container["resources"]["limits"] == {"nvidia.com/gpu": "8"}
        crds.check(cluster)


def test_the_head_serves_once_every_host_has_joined_its_ray(on_ray):
    head, worker = containers(deployments(plan_of(on_ray))["gpu-0"])
    assert "ray start --head --port=6379" in head["command"][2]
    assert 'int(os.environ["RAY_CLUSTER_HOSTS"])' in head["command"][2]
    assert {"name": "RAY_CLUSTER_HOSTS", "value": "3"} in head["env"]
    for flag in (
        "--distributed-executor-backend=ray",
        "--pipeline-parallel-size=3",
        "--tensor-parallel-size=8",
    ):
        assert flag in head["args"]
    assert 'exec ray start --address="$FQ_RAY_IP:6379" --block' in worker["command"][2]
    assert "args" not in worker


def test_workers_ask_their_own_head_by_the_name_that_kuberay_gives_it(on_ray):
    _, worker = containers(deployments(plan_of(on_ray))["gpu-0"])
    for asked in (
        worker["readinessProbe"]["exec"]["command"][-1],
        worker["startupProbe"]["exec"]["command"][-1],
        worker["lifecycle"]["preStop"]["exec"]["command"][-1],
    ):
        assert 'os.environ["FQ_RAY_IP"]' in asked
        assert "LWS_" not in asked
    assert worker["livenessProbe"]["exec"] == {"command": ["true"]}  # else KubeRay adds its own


def test_only_heads_are_what_routes_and_scrapes_select(recorder, on_ray):
    servers: list[ModelServer] = []
    recorder.run(lambda: servers.append(ModelServer("llama", on_ray)))
    assert servers[0].target_kinds == {"gpu": "RayClusterSet"}
    head, worker = templates(deployments(plan_of(on_ray))["gpu-0"])
    assert servers[0].labels.items() <= head["metadata"]["labels"].items()
    assert not servers[0].labels.keys() & worker["metadata"]["labels"].keys()
    (wish,) = worker["spec"]["affinity"]["podAffinity"][
        "preferredDuringSchedulingIgnoredDuringExecution"
    ]
    assert wish["podAffinityTerm"]["matchLabelKeys"] == ["ray.io/cluster"]


def test_the_budget_says_how_many_pods_there_must_be_as_nothing_else_does(on_ray):
    budget = disruption_budget(plan_of(on_ray))["spec"]
    assert budget["minAvailable"] == 5  # of 2 clusters with 3 pods each
    assert "maxUnavailable" not in budget


def test_a_cluster_is_suspended_until_its_weights_are_there(on_ray):
    for cluster in deployments(plan_of({**on_ray, "has_gate": True})).values():
        assert cluster["spec"]["suspend"] is True
        assert cluster["metadata"]["annotations"][REPLICAS] == "1"
        assert "replicas" not in cluster["spec"]


def test_clusters_beyond_the_replicas_exist_without_pods_and_a_set_lists_all_in_order(on_ray):
    plan = plan_of({**on_ray, "replicas": {"min": 2, "max": 4}})
    clusters = deployments(plan)
    assert {kind: obj["spec"]["suspend"] for kind, obj in clusters.items()} == {
        "gpu-0": False,
        "gpu-1": False,
        "gpu-2": True,
        "gpu-3": True,
    }
    made = cluster_sets(plan)["gpu"]
    assert (made["metadata"]["name"], made["metadata"]["namespace"]) == ("llama-8b-gpu", "serving")
    assert made["spec"] == {
        "clusters": [obj["metadata"]["name"] for obj in clusters.values()],
        "disruptionBudget": disruption_budget(plan)["metadata"]["name"],
        "replicas": 2,
        "selector": made["spec"]["selector"],
    }
    head, worker = templates(clusters["gpu-3"])
    chosen = dict(part.split("=") for part in made["spec"]["selector"].split(","))
    assert chosen.items() <= head["metadata"]["labels"].items()
    assert not chosen.items() <= worker["metadata"]["labels"].items()


def test_the_gate_opens_a_suspended_cluster_and_leaves_it_to_the_scaler(on_ray):
    made = deployments(plan_of({**on_ray, "has_gate": True, "replicas": {"min": 2, "max": 3}}))
    assert [obj["spec"]["suspend"] for obj in made.values()] == [True] * 3
    notes = [obj["metadata"]["annotations"] for obj in made.values()]
    assert [each[REPLICAS] for each in notes] == ["1", "1", "0"]
    assert len({each[NEEDS] for each in notes}) == 1


def test_what_gate_scaler_and_autoscaler_change_is_not_set_again(recorder, on_ray):
    wanted: Any = {**on_ray, "replicas": {"min": 2, "max": 3}}
    recorder.run(lambda: ModelServer("llama", wanted))
    ignored = {each.name: each.ignored for each in recorder.registrations if each.ignored}
    assert ignored == {
        **{f"llama-gpu-{number}": ("spec.suspend",) for number in range(3)},
        "llama-budget": ("spec.minAvailable",),
        "llama-gpu-set": ("spec.replicas",),
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"replicas": {"min": 2, "max": 1000}, "model": "m" * 47}, "model.*53 characters"),
        ({"rungs": [SLICE]}, r"spanning.*must be ray, as rungs\[0\] is a TPU slice"),
        (
            {"rungs": [{**SLICE, "topology": "2x2"}, NODES]},
            "spanning.*must be engine or ray when form is paired",
        ),
        ({"rungs": [{**NODES, "hosts": 1}]}, "spanning.*none of its rungs spans"),
        ({"model": "a-name-that-is-far-too-long-for-the-clusters-of-ray"}, "model.*53 characters"),
    ],
)
def test_what_kuberay_or_its_clusters_cannot_do_is_refused(recorder, on_ray, change, message):
    wanted: Any = {
        **on_ray,
        "cache_bucket": "acme-caches",
        "size": {"parameters_billion": 8.0},
        **change,
    }
    with pytest.raises(pulumi.InputPropertyError, match=message):
        recorder.run(lambda: ModelServer("llama", wanted))


def test_a_cluster_of_another_size_is_found(on_ray):
    node = hardware("gpu", "c", [check_rung(NODES)])
    cluster = copy.deepcopy(deployments(plan_of(on_ray))["gpu-0"])
    assert broken_ray_cluster(cluster, node) == []
    cluster["spec"]["workerGroupSpecs"][0]["replicas"] = 1
    assert broken_ray_cluster(cluster, node) == ["size is 2, a replica has 3 hosts"]
