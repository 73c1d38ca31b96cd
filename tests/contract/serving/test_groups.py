import copy
from typing import Any

import pulumi
import pytest

from gke_inference.catalogue.rungs import check_rung
from gke_inference.serving.hardware import hardware
from gke_inference.serving.invariants import broken_group
from gke_inference.serving.model_objects import deployments, disruption_budget
from gke_inference.serving.model_server import ModelServer
from tests.contract.components_k8s import crds
from tests.model_plans import planned

SLICE: dict[str, Any] = {
    "accelerator": "tpu-v6e",
    "provisioning": "on-demand",
    "topology": "4x4",
}
PAIR_OF_NODES: dict[str, Any] = {
    "accelerator": "nvidia-h100-80gb",
    "count": 8,
    "hosts": 2,
    "network": "tcp",
    "provisioning": "spot",
}


@pytest.fixture
def on_slices(args) -> dict[str, Any]:
    return {**args, "size": {"parameters_billion": 70.6}, "rungs": [SLICE]}


@pytest.fixture
def on_nodes(gpu_only) -> dict[str, Any]:
    return {**gpu_only, "size": {"parameters_billion": 405.0}, "rungs": [PAIR_OF_NODES]}


def made(args: dict[str, Any]) -> dict[str, Any]:
    return deployments(planned(args))


def templates(group: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    template = group["spec"]["leaderWorkerTemplate"]
    return template["leaderTemplate"], template["workerTemplate"]


def container(template: dict[str, Any]) -> dict[str, Any]:
    return template["spec"]["containers"][0]


def test_a_slice_is_a_group_of_a_pod_on_each_host_in_a_pool_of_its_own(on_slices):
    group = made(on_slices)["tpu"]
    assert group["kind"] == "LeaderWorkerSet"
    assert group["metadata"]["name"] == "llama-8b-tpu"
    assert group["metadata"]["annotations"] == {
        "leaderworkerset.sigs.k8s.io/exclusive-topology": "cloud.google.com/gke-nodepool",
        "pulumi.com/skipAwait": "true",
    }
    spec = group["spec"]
    assert spec["replicas"] == 2
    assert spec["networkConfig"] == {"subdomainPolicy": "UniquePerReplica"}
    assert spec["leaderWorkerTemplate"]["size"] == 4
    assert spec["leaderWorkerTemplate"]["restartPolicy"] == "RecreateGroupOnPodRestart"
    for template in templates(group):
        assert container(template)["resources"]["limits"] == {"google.com/tpu": "4"}
    crds.check(group)


def test_on_tpu_the_model_is_split_over_all_chips_of_the_slice_by_ray(on_slices):
    leader, worker = map(container, templates(made(on_slices)["tpu"]))
    assert "--tensor-parallel-size=16" in leader["args"]
    assert "--distributed-executor-backend=ray" in leader["args"]
    assert not any("pipeline" in word for word in leader["args"])
    assert leader["command"][:2] == worker["command"][:2] == ["bash", "-c"]
    assert "ray start --head --port=6379" in leader["command"][2]
    assert 'ray start --address="$LWS_LEADER_ADDRESS:6379" --block' in worker["command"][2]
    assert "args" not in worker
    for each in (leader, worker):
        assert {"name": "TPU_MULTIHOST_BACKEND", "value": "ray"} in each["env"]


def test_every_host_has_the_weights_and_the_compile_cache(on_slices):
    leader, worker = templates(made(on_slices)["tpu"])
    assert container(leader)["volumeMounts"] == container(worker)["volumeMounts"]
    assert leader["spec"]["volumes"] == worker["spec"]["volumes"]
    names = {entry["name"] for entry in container(worker)["env"]}
    assert "VLLM_XLA_CACHE_PATH" in names
    assert leader["metadata"]["annotations"] == worker["metadata"]["annotations"]


def test_only_leaders_are_what_routes_and_scrapes_select(recorder, on_slices):
    servers: list[ModelServer] = []
    recorder.run(lambda: servers.append(ModelServer("llama", on_slices)))
    assert servers[0].target_kinds == {"tpu": "LeaderWorkerSet"}
    leader, worker = templates(made(on_slices)["tpu"])
    assert servers[0].labels.items() <= leader["metadata"]["labels"].items()
    assert not servers[0].labels.keys() & worker["metadata"]["labels"].keys()
    assert "ports" not in container(worker)


def test_the_budget_counts_workers_too_as_one_takes_its_group_along(on_slices):
    plan = planned(on_slices)
    wanted = disruption_budget(plan)["spec"]["selector"]["matchLabels"]
    for template in templates(made(on_slices)["tpu"]):
        assert wanted.items() <= template["metadata"]["labels"].items()


def test_a_worker_has_started_once_its_leader_waits_for_weights_or_serves(on_nodes):
    _, worker = map(container, templates(made(on_nodes)["gpu"]))
    asked = worker["startupProbe"]["exec"]["command"][-1]
    assert 'leader + ":8090/startz"' in asked
    assert "/health" in worker["readinessProbe"]["exec"]["command"][-1]


def test_on_gpu_each_host_is_a_stage_and_the_engine_spans_hosts_itself(on_nodes):
    group = made(on_nodes)["gpu"]
    leader, worker = map(container, templates(group))
    assert group["spec"]["leaderWorkerTemplate"]["size"] == 2
    assert "leaderworkerset.sigs.k8s.io/exclusive-topology" not in group["metadata"]["annotations"]
    assert leader["command"][:3] == ["python3", "-m", "engine"]
    assert leader["command"][-3:] == worker["command"][-3:] == ["--", "vllm", "serve"]
    assert worker["command"][3:] == [*leader["command"][3:-3], "--worker", "--", "vllm", "serve"]
    assert leader["args"][0] == "gs://acme-models/llama"
    for flag in (
        "--tensor-parallel-size=8",
        "--pipeline-parallel-size=2",
        "--nnodes=2",
        "--node-rank=$(LWS_WORKER_INDEX)",
        "--master-addr=$(LWS_LEADER_ADDRESS)",
        "--distributed-executor-backend=mp",
    ):
        assert flag in leader["args"]
    assert worker["args"] == [*leader["args"], "--headless"]
    crds.check(group)


def test_ray_is_the_other_way_on_gpu(on_nodes):
    leader, worker = map(container, templates(made({**on_nodes, "spanning": "ray"})["gpu"]))
    assert "--distributed-executor-backend=ray" in leader["args"]
    assert "--pipeline-parallel-size=2" in leader["args"]
    assert "ray start --address" in worker["command"][2]
    assert "TPU_MULTIHOST_BACKEND" not in {entry["name"] for entry in leader["env"]}


def test_the_pods_of_a_gpu_group_wish_for_one_zone(on_nodes):
    for template in templates(made(on_nodes)["gpu"]):
        affinity = template["spec"]["affinity"]["podAffinity"]
        (wish,) = affinity["preferredDuringSchedulingIgnoredDuringExecution"]
        term = wish["podAffinityTerm"]
        assert term["topologyKey"] == "topology.kubernetes.io/zone"
        assert term["matchLabelKeys"] == ["leaderworkerset.sigs.k8s.io/group-index"]
        labels = template["metadata"]["labels"]
        assert term["labelSelector"]["matchLabels"].items() <= labels.items()


def test_a_slice_with_one_gpu_node_behind_it_is_a_pair(args):
    rungs = [SLICE, {"accelerator": "nvidia-l4", "count": 1, "provisioning": "spot"}]
    pair = made({**args, "rungs": rungs})
    assert {kind: obj["kind"] for kind, obj in pair.items()} == {
        "tpu": "LeaderWorkerSet",
        "gpu": "Deployment",
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"spanning": "mpi"}, "spanning.*must be one of engine, ray"),
        (
            {"spanning": "engine"},
            r"spanning.*must be ray, as rungs\[0\] is a TPU slice",
        ),
        (
            {"spanning": "ray", "rungs": [{**SLICE, "topology": "2x2"}]},
            "spanning.*none of its rungs spans",
        ),
    ],
)
def test_a_way_that_the_hardware_has_not_is_refused(recorder, args, change, message):
    wanted: Any = {**args, "rungs": [SLICE], **change}
    with pytest.raises(pulumi.InputPropertyError, match=message):
        recorder.run(lambda: ModelServer("llama", wanted))


def broken(group: dict[str, Any]) -> list[str]:
    return broken_group(group, hardware("tpu", "c", [check_rung(SLICE)]))


def test_what_is_rendered_breaks_nothing(on_slices):
    assert broken(made(on_slices)["tpu"]) == []


def test_a_group_of_another_size_or_split_is_found(on_slices):
    group = copy.deepcopy(made(on_slices)["tpu"])
    group["spec"]["leaderWorkerTemplate"]["size"] = 2
    leader = container(templates(group)[0])
    leader["args"] = [word.replace("size=16", "size=8") for word in leader["args"]]
    assert broken(group) == [
        "--tensor-parallel-size 8 times --pipeline-parallel-size 1"
        " is not the 16 devices of 4 hosts",
        "size is 2, a replica has 4 hosts",
    ]


def test_a_worker_that_would_get_requests_or_lacks_a_file_is_found(on_slices):
    group = copy.deepcopy(made(on_slices)["tpu"])
    worker = templates(group)[1]
    worker["metadata"]["labels"]["gke-inference/model"] = "llama-8b"
    container(worker)["volumeMounts"].pop(0)
    found = broken(group)
    assert "the leader and its workers mount different files" in found
    assert any("requests would be sent to them" in sentence for sentence in found)
