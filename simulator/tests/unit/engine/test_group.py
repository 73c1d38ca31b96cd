"""An engine over several hosts: joining, losing one, and what the network costs."""

import asyncio
import json
import os
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from gke_inference.serving.ray_clusters import HOSTS_VARIABLE
from gke_inference.sizing.shapes import shape_of
from planner.fit.chips import HOST_NETWORKS, accelerator
from planner.speed.roofline import CostModel, ExpertGroup, StepLoad
from simulator.engine.settings import PREFIX, Deployment, EngineError, deploy, weights_gb
from simulator.server.group import Leader, hosts_of, port_of, work
from twin.engines import vllm_flags as flags
from twin.host.ports import free_port

H100 = {"GKE_INFERENCE_SIM_ACCELERATOR": "nvidia-h100-80gb", "GKE_INFERENCE_SIM_CHIPS": "8"}


def deployed(*more: str, **environment: str) -> Deployment:
    words = ["llama-3.1-405b", "--max-model-len=8192", "--tensor-parallel-size=8"]
    return deploy(flags.parse([*words, *more]), {**H100, **environment})


def test_an_engine_has_the_chips_and_the_memory_of_all_its_hosts():
    found = deployed("--pipeline-parallel-size=2", "--nnodes=2")
    assert found.chips == 16
    assert found.kv_blocks > 0
    assert hosts_of(found, {}) == 2
    assert port_of(found.flags) == 29501


def test_with_ray_the_operator_says_how_many_hosts_there_are():
    found = deployed("--pipeline-parallel-size=2", "--distributed-executor-backend=ray")
    assert hosts_of(found, {"LWS_GROUP_SIZE": "2"}) == 2
    assert hosts_of(found, {HOSTS_VARIABLE: "2"}) == 2
    assert port_of(found.flags) == 6379


def ranks(*more: str) -> Deployment:
    words = ["deepseek-r1", "--max-model-len=8192", "--enable-expert-parallel", *more]
    return deploy(
        flags.parse(words), {**H100, "GKE_INFERENCE_SIM_ACCELERATOR": "nvidia-h200-141gb"}
    )


def test_data_parallel_ranks_have_their_experts_and_a_copy_of_everything_else():
    one = ranks("--data-parallel-size=8")
    two = ranks(
        "--data-parallel-size=16",
        "--data-parallel-size-local=8",
        "--data-parallel-address=big-0.big-0.n",
        "--data-parallel-rpc-port=5555",
    )
    assert (hosts_of(one, {}), hosts_of(two, {})) == (1, 2)
    assert (one.chips, two.chips) == (8, 8)
    assert port_of(two.flags) == 5555
    # 654.4 GB of experts, once a group; 16.6 GB of other weights, once a device
    assert weights_gb(one.shape, one.experts) == pytest.approx(654.4 + 8 * 16.55, abs=1)
    assert weights_gb(two.shape, two.experts) == pytest.approx(654.4 / 2 + 8 * 16.55, abs=1)
    assert two.kv_blocks > one.kv_blocks


def test_experts_that_cannot_be_divided_stop_the_engine():
    with pytest.raises(EngineError, match=r"experts \(261\) must be divisible by .* \(8\)"):
        ranks(
            "--data-parallel-size=8", "--enable-eplb", '--eplb-config={"num_redundant_experts": 5}'
        )


def test_more_hosts_read_fewer_experts_each_and_send_tokens_over_the_network():
    shape, chip = shape_of("deepseek-r1"), accelerator("nvidia-h200-141gb")
    load = StepLoad(0, 256, 256 * 2000, 256 * 2000)
    one = CostModel(shape, chip, 8, experts=ExpertGroup(8, 1, 8))
    two = CostModel(shape, chip, 8, network=HOST_NETWORKS["rdma"], experts=ExpertGroup(16, 2, 16))
    assert two.memory_seconds(load) < one.memory_seconds(load)
    assert two.link_seconds(load) > one.link_seconds(load)
    slow = CostModel(shape, chip, 8, network=HOST_NETWORKS["tcp"], experts=ExpertGroup(16, 2, 16))
    assert slow.link_seconds(load) > 3 * two.link_seconds(load)


def test_a_leader_is_complete_with_its_last_worker_and_hears_of_a_lost_one(tmp_path: Path):
    names = tmp_path / "names.json"
    names.write_text(json.dumps({"big-0.big-0.n": "127.0.0.1"}))
    port = free_port()

    async def scene() -> tuple[bool, str]:
        leader = Leader(2)
        forming = asyncio.create_task(leader.wait("127.0.0.1", port))
        workers = [
            asyncio.create_task(work("big-0.big-0.n", port, f"big-0-{i}", names)) for i in (1, 2)
        ]
        await asyncio.wait_for(forming, 10)
        before = leader.lost.done()
        workers[1].cancel()
        with suppress(asyncio.CancelledError):
            await workers[1]
        lost = await asyncio.wait_for(leader.lost, 10)
        await leader.close()
        await asyncio.gather(*workers, return_exceptions=True)
        return before, lost

    assert asyncio.run(scene()) == (False, "big-0-2")


@pytest.mark.parametrize(("port", "code"), [(flags.RAY_PORT, 1), (flags.MASTER_PORT, 0)])
def test_a_terminated_worker_has_a_failure_with_ray_and_none_without(
    tmp_path: Path, port: int, code: int
):
    names, address = tmp_path / "names.json", "127.61.4.9"
    names.write_text(json.dumps({"big-0": address}))
    environment = {**os.environ, PREFIX + "NAMES": str(names)}
    words = [sys.executable, "-m", "simulator.server.worker", "big-0", str(port), "big-0-1"]
    with socket.create_server((address, port)) as leader:
        leader.settimeout(60)
        worker = subprocess.Popen(words, env=environment)
        try:
            joined, _ = leader.accept()
            with joined:
                worker.terminate()
                assert worker.wait(30) == code
        finally:
            worker.kill()
            worker.wait()


def test_a_leader_alone_waits_for_nobody():
    async def scene() -> None:
        leader = Leader(0)
        await asyncio.wait_for(leader.wait("127.0.0.1", 1), 1)

    asyncio.run(scene())


@pytest.mark.parametrize("tokens", [1, 256])
def test_a_hop_between_hosts_makes_a_step_longer_and_more_tokens_a_hop(tokens: int):
    shape, chip = shape_of("llama-3.1-405b"), accelerator("nvidia-h100-80gb")
    load = StepLoad(tokens, 0, tokens)  # of a prompt, which is not divided

    def seconds(stages: int) -> float:
        return CostModel(shape, chip, 8 * stages, stages=stages).link_seconds(load)

    assert seconds(1) < seconds(2) < seconds(3)
