"""Which containers are workers of a group."""

import pytest

from gke_inference.serving.groups import LEADER_WORKER_SET
from twin.cluster.agent.launching.groups import Leader, leader_of

SERVE = 'exec python3 -m engine --spec=/s -- vllm serve "$@"\n'
VARIABLES = {"LWS_LEADER_ADDRESS": "big-0.big-0.models", "LWS_WORKER_INDEX": "1"}


def test_a_host_that_joins_ray_and_serves_nothing_is_a_worker():
    found = leader_of({"command": ["bash", "-c", LEADER_WORKER_SET.ray_worker]}, VARIABLES)
    assert found == Leader("big-0.big-0.models", 6379)


def test_a_headless_engine_is_a_worker():
    args = ["m", "--nnodes=2", "--master-addr=$(LWS_LEADER_ADDRESS)", "--headless"]
    container = {"command": ["vllm", "serve"], "args": args}
    assert leader_of(container, VARIABLES) == Leader("big-0.big-0.models", 29501)
    container["args"] = [*args, "--master-port=4000"]
    assert leader_of(container, VARIABLES) == Leader("big-0.big-0.models", 4000)


@pytest.mark.parametrize(
    "container",
    [
        {
            "command": ["bash", "-c", LEADER_WORKER_SET.ray_head + SERVE, "engine"],
            "args": ["--model=m"],
        },
        {"command": ["vllm", "serve"], "args": ["m", "--nnodes=2", "--node-rank=0"]},
        {"args": ["m"]},
    ],
)
def test_what_serves_is_no_worker(container):
    assert leader_of(container, VARIABLES) is None
