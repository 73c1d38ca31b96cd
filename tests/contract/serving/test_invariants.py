import copy
from typing import Any

import pytest

from gke_inference.catalogue.rungs import check_rung
from gke_inference.serving.hardware import hardware
from gke_inference.serving.invariants import broken, chips_of
from gke_inference.serving.model_objects import deployments
from tests.contract.serving.conftest import RESERVED
from tests.model_plans import planned


@pytest.fixture
def node():
    return hardware("tpu", "chat", [check_rung(RESERVED)])


@pytest.fixture
def container(args):
    plan = planned(args)
    made = deployments(plan)["tpu"]["spec"]["template"]["spec"]["containers"][0]
    return copy.deepcopy(made)


def test_what_the_platform_renders_breaks_nothing(container, node):
    assert broken(container, node) == []


def test_a_model_split_over_fewer_devices_than_the_node_has_is_found(container, node):
    args = [arg.replace("parallel-size=4", "parallel-size=2") for arg in container["args"]]
    container["args"] = args
    assert broken(container, node) == ["--tensor-parallel-size is 2, the node has 4 devices"]


def test_a_limit_without_its_request_is_found(container, node):
    del container["resources"]["requests"]["google.com/tpu"]
    (sentence,) = broken(container, node)
    assert sentence == "google.com/tpu: limit 4 and request None, the node has 4"


def test_a_compile_cache_that_dies_with_its_container_is_found(container, node):
    container["volumeMounts"] = [
        mount for mount in container["volumeMounts"] if mount["name"] != "xla-cache"
    ]
    (sentence,) = broken(container, node)
    assert sentence.startswith("VLLM_XLA_CACHE_PATH is /mnt/xla-cache/")
    assert sentence.endswith("which no volume is mounted at")


@pytest.mark.parametrize(("topology", "chips"), [("1x1", 1), ("2x4", 8), ("2x2x1", 4)])
def test_a_topology_is_so_many_chips(topology, chips):
    assert chips_of(topology) == chips


def test_a_chip_that_is_two_devices_splits_a_model_twice_as_far(args):
    rung: Any = {
        "accelerator": "tpu7x",
        "provisioning": "on-demand",
        "topology": "2x2x1",
    }
    plan = planned({**args, "rungs": [rung]})
    assert "--tensor-parallel-size=8" in plan.arguments["tpu"]
    assert deployments(plan)["tpu"]["spec"]["replicas"] == 2


@pytest.mark.parametrize(
    ("engine", "flag"),
    [("sglang", "--tp-size=1"), ("tgi", "--num-shard=1"), ("vllm", "--tensor-parallel-size=1")],
)
def test_every_engine_splits_a_model_by_a_flag_of_its_own(gpu_only, engine, flag):
    kept = {key: value for key, value in gpu_only.items() if key != "adapters"}
    plan = planned({**kept, "engine": engine})
    container = deployments(plan)["gpu"]["spec"]["template"]["spec"]["containers"][0]
    assert flag in container["args"]
    container["args"] = [arg.replace(flag, flag[:-1] + "2") for arg in container["args"]]
    name = flag.partition("=")[0]
    assert broken(container, plan.nodes["gpu"]) == [f"{name} is 2, the node has 1 devices"]


def test_copies_of_a_model_fill_the_devices_of_a_node(gpu_only):
    rung: Any = {
        "accelerator": "nvidia-h200-141gb",
        "count": 8,
        "provisioning": "flex-start",
    }
    wanted = {**gpu_only, "rungs": [rung], "settings": {"tensor_parallel": 2}}
    plan = planned(wanted)
    assert "--data-parallel-size=4" in plan.arguments["gpu"]
    assert deployments(plan)["gpu"]["spec"]["replicas"] == 2
