"""Expert parallelism: a mixture's experts on all devices of a replica, on one or two hosts."""

from typing import Any

import pytest

from gke_inference.catalogue.engine_flags import flags
from gke_inference.catalogue.input_error import InputError
from gke_inference.serving.invariants import broken_group
from gke_inference.serving.launcher.vllm import rank
from gke_inference.serving.model_objects import deployments, disruption_budget
from tests.model_plans import planned as plan_of

NODE: dict[str, Any] = {
    "accelerator": "nvidia-h200-141gb",
    "count": 8,
    "provisioning": "spot",
}
PAIR = {**NODE, "hosts": 2}


@pytest.fixture
def deepseek(gpu_only) -> dict[str, Any]:
    return {
        **gpu_only,
        "adapters": {},
        "context": 16384,
        "experts": {},
        "model": "deepseek-r1",
        "size": {"parameters_billion": 671.0, "bits": 8},
        "rungs": [PAIR],
        "weights": "gs://acme-models/deepseek-r1-0528",
    }


def planned(args: dict[str, Any]) -> Any:
    return plan_of(args)


def templates(args: dict[str, Any]) -> list[dict[str, Any]]:
    found = deployments(planned(args))["gpu"]["spec"]["leaderWorkerTemplate"]
    return [found["leaderTemplate"], found["workerTemplate"]]


def engine_of(template: dict[str, Any]) -> dict[str, Any]:
    return template["spec"]["containers"][0]


def parallelism(args: dict[str, Any]) -> list[str]:
    words = ("parallel", "all2all", "eplb", "node")
    given = planned(args).arguments["gpu"]
    return [word for word in given if any(part in word for part in words)]


def refusal(args: dict[str, Any]) -> str:
    with pytest.raises(InputError) as caught:
        planned(args)
    return str(caught.value)


def test_experts_of_one_host_are_on_all_its_devices_and_the_rest_is_copied_to_each(deepseek):
    assert parallelism({**deepseek, "rungs": [NODE]}) == [
        "--tensor-parallel-size=1",
        "--data-parallel-size=8",
        "--enable-expert-parallel",
        "--all2all-backend=allgather_reducescatter",
    ]


def test_two_hosts_are_one_group_of_ranks_that_each_host_balances(deepseek):
    assert parallelism({**deepseek, "experts": {"redundant": 32}}) == [
        "--tensor-parallel-size=1",
        "--data-parallel-size=16",
        "--enable-expert-parallel",
        "--all2all-backend=allgather_reducescatter",
        "--enable-eplb",
        '--eplb-config={"num_redundant_experts": 32}',
        "--data-parallel-size-local=8",
        "--data-parallel-address=$(LWS_LEADER_ADDRESS)",
        "--data-parallel-rpc-port=5555",
        "--data-parallel-hybrid-lb",
    ]


def test_every_flag_is_one_of_the_engines_release(deepseek):
    known = flags("vllm")
    for role in (None, "prefill", "decode"):
        args = {**deepseek, "experts": {"redundant": 16}, "role": role}
        for word in parallelism(args):
            name, _, value = word.removeprefix("--").partition("=")
            assert known[name].problem(value or "true") is None or "$(" in value


def test_two_devices_can_share_a_copy_of_the_other_layers(deepseek):
    found = parallelism({**deepseek, "settings": {"tensor_parallel": 2}})
    assert found[:2] == ["--tensor-parallel-size=2", "--data-parallel-size=8"]
    assert "--data-parallel-size-local=4" in found


def test_every_host_of_a_balanced_group_gets_requests_and_starts_at_its_own_rank(deepseek):
    leader, worker = templates(deepseek)
    assert worker["metadata"]["labels"] == leader["metadata"]["labels"]
    assert engine_of(worker)["readinessProbe"] == engine_of(leader)["readinessProbe"]
    assert engine_of(worker) == engine_of(leader)
    assert "--headless" not in engine_of(worker)["args"]
    serving = planned(deepseek).serving["gpu"]
    assert rank(serving, {"LWS_WORKER_INDEX": "0"}) == []
    assert rank(serving, {"LWS_WORKER_INDEX": "1"}) == ["--data-parallel-start-rank=8"]


def test_workers_of_a_group_with_one_api_get_no_requests(deepseek):
    leader, worker = templates({**deepseek, "experts": {"hybrid_load_balancing": False}})
    assert "gke-inference/model" not in worker["metadata"]["labels"]
    assert engine_of(worker)["args"][-1] == "--headless"
    assert engine_of(worker)["command"][-4:] == ["--worker", "--", "vllm", "serve"]
    assert "--data-parallel-hybrid-lb" not in engine_of(leader)["args"]


@pytest.mark.parametrize(
    ("role", "backend"),
    [("prefill", "deepep_high_throughput"), ("decode", "deepep_low_latency")],
)
def test_each_role_has_its_own_all_to_all_backend_on_privileged_engines(deepseek, role, backend):
    args = {**deepseek, "role": role}
    assert f"--all2all-backend={backend}" in parallelism(args)
    for template in templates(args):
        assert engine_of(template)["securityContext"] == {"privileged": True}
        assert template["metadata"]["annotations"]["gke-inference/privileged-because"]
        env = {entry["name"]: entry.get("value") for entry in engine_of(template)["env"]}
        assert env["NVSHMEM_REMOTE_TRANSPORT"] == "ibgda"
        assert ("initContainers" in template["spec"]) is (role == "decode")


def test_a_backend_that_needs_no_gpu_initiated_rdma_has_no_privileged_engine(deepseek):
    for template in templates(deepseek):
        assert "privileged" not in engine_of(template)["securityContext"]


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_a_group_is_near_pods_of_its_own_role_and_number(deepseek, role):
    for template in templates({**deepseek, "role": role}):
        near = template["spec"]["affinity"]["podAffinity"]
        (zone,) = near["requiredDuringSchedulingIgnoredDuringExecution"]
        selected = zone["labelSelector"]["matchLabels"]
        assert selected["llm-d.ai/role"] == role
        assert selected.items() <= template["metadata"]["labels"].items()
        assert zone["matchLabelKeys"] == ["leaderworkerset.sigs.k8s.io/group-index"]


def test_a_group_prefers_nodes_close_to_its_own_to_those_close_to_the_other_role(deepseek):
    for template in templates({**deepseek, "role": "decode"}):
        near = template["spec"]["affinity"]["podAffinity"]
        blocks = near["preferredDuringSchedulingIgnoredDuringExecution"]
        own = "leaderworkerset.sigs.k8s.io/group-index"
        assert [
            (each["weight"], own in each["podAffinityTerm"].get("matchLabelKeys", []))
            for each in blocks
        ] == [(20, True), (10, True), (2, False), (1, False)]


def test_the_budget_of_a_role_counts_the_pods_of_that_role_alone(deepseek):
    budget = disruption_budget(planned({**deepseek, "role": "decode"}))
    assert budget["spec"]["selector"]["matchLabels"] == {
        "gke-inference/model": "deepseek-r1",
        "llm-d.ai/role": "decode",
    }


@pytest.mark.parametrize("backend", ["allgather_reducescatter", "deepep_low_latency"])
@pytest.mark.parametrize("at", ["leaderTemplate", "workerTemplate"])
def test_an_rdma_pod_with_part_of_its_node_is_found(deepseek, backend, at):
    """Its claim has network interfaces only, and a privileged engine requests GPUs as well."""
    group = deployments(planned({**deepseek, "experts": {"all2all": {"serve": backend}}}))["gpu"]
    engine = engine_of(group["spec"]["leaderWorkerTemplate"][at])
    assert engine["resources"]["claims"] == [{"name": "rdma"}]
    engine["resources"]["limits"]["nvidia.com/gpu"] = "4"
    assert broken_group(group, planned(deepseek).nodes["gpu"]) == [
        "nvidia.com/gpu: limit 4 and request 8, the node has 8"
    ]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            {"engine": "sglang", "rungs": [NODE]},
            "experts: must not be set unless engine is vllm, got 'sglang'",
        ),
        (
            {"weights": "gs://acme-models/llama-3.1-70b", "model": "llama"},
            "experts: needs a mixture of experts that the catalog knows, got 'llama-3.1-8b'",
        ),
        (
            {"experts": {"redundant": 5}},
            "experts.redundant: must make 256 experts a multiple of the 16 devices of rungs[0],"
            " such as 16, got 5",
        ),
        (
            {"rungs": [{**PAIR, "network": "tcp"}]},
            "experts: needs network rdma between the hosts of rungs[0], got tcp",
        ),
        (
            {"settings": {"engine_args": {"enable-eplb": "true"}}},
            "settings.engine_args.enable-eplb: must not be set with experts, which sets it, got "
            "'true'",
        ),
        (
            {"experts": {"all2all": {"prefill": "deepep_low_latency"}}},
            "experts.all2all: must be one of serve here, got 'prefill'",
        ),
        (
            {"experts": {"all2all": {"serve": "pplx"}}},
            "experts.all2all.serve: must be one of allgather_reducescatter,"
            " deepep_high_throughput, deepep_low_latency, got 'pplx'",
        ),
        (
            {"role": "decode", "experts": {"hybrid_load_balancing": False}},
            "experts.hybrid_load_balancing: must be true where a role has several hosts:"
            " each reads KV cache for its own ranks, got false",
        ),
        (
            {"settings": {"tensor_parallel": 3}},
            "settings.tensor_parallel: must divide the 8 devices of a host of rungs[0], got 3",
        ),
        ({"spanning": "ray"}, "spanning: must be engine, or left out, with experts, got 'ray'"),
        (
            {"adapters": {"sql": "gs://acme-models/sql"}},
            "adapters: must not be set with experts, got 1",
        ),
        (
            {"live_adapters": {"source": "gs://acme-models/adapters"}, "rungs": [NODE]},
            "live_adapters: must not be set with experts",
        ),
    ],
)  # fmt: skip
def test_what_cannot_run_is_refused(deepseek, change, expected):
    assert refusal({**deepseek, **change}) == expected


def test_a_model_whose_experts_do_not_fit_is_refused_with_the_devices(deepseek):
    small = {**NODE, "accelerator": "nvidia-h100-80gb"}
    assert "with the experts on 8 devices" in refusal({**deepseek, "rungs": [small]})
