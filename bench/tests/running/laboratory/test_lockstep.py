"""The laboratory with the real Envoy and the real picker, a few requests long."""

import asyncio

import pytest
import uvloop

from bench.laboratory.lockstep import Lockstep
from bench.laboratory.policies import policies
from bench.laboratory.replicas import Replicas
from bench.laboratory.rig import Rig
from simulator.replays.picker_configs import Facts
from simulator.replays.replica_spec import ReplicaSpec
from simulator.traffic import Trace, shared_prefix
from twin.toolchain import ToolError, envoy, tool

pytestmark = [pytest.mark.needs_tools, pytest.mark.timeout(600)]
SPEC = ReplicaSpec("nvidia-l4", 1, "meta-llama/Llama-3.1-8B", ("--max-model-len=8192",))
NAMES = ["replica-0", "replica-1", "replica-2"]
TRACE = Trace.merge(
    "t",
    shared_prefix(
        rate=4, seconds=6, seed=1, groups=6, prompts_per_group=2, prefix_tokens=1000,
        question_tokens=50, output_tokens=30,
    ),
)  # fmt: skip


@pytest.fixture(scope="module")
def rig(tmp_path_factory):
    try:
        envoy()
        for program in ("etcd", "kube-apiserver", "epp"):
            tool(program)
    except ToolError as error:
        pytest.skip(str(error))
    with Rig(tmp_path_factory.mktemp("lab")) as found:
        yield found


def replayed(rig, name):
    policy = next(one for one in policies(Facts()) if one.name == name)

    async def main():
        addresses = [rig.address(number) for number in range(len(NAMES))]
        specs = [SPEC] * len(NAMES)
        async with Replicas(specs, NAMES, addresses, "model") as replicas:
            await asyncio.to_thread(rig.replicas, NAMES)
            url = await asyncio.to_thread(rig.gateway, policy, len(NAMES))
            lab = Lockstep(replicas, url, with_picker=policy.picker is not None)
            stage = await lab.replay(TRACE)
            return stage, replicas.cache_tokens()

    try:
        return uvloop.run(main())
    finally:
        rig.end_run()


def test_envoy_takes_turns_and_every_request_is_answered(rig):
    stage, _ = replayed(rig, "round_robin")
    summary = stage.report.summary()
    assert (summary.sent, summary.answered, summary.lag_p99_ms) == (24, 24, 0.0)
    assert sorted(stage.report.replicas().values()) == [8, 8, 8]
    assert stage.ticks == 0
    assert all(record.tokens == 30 for record in stage.report.records)


def test_the_same_trace_gives_the_same_figures_again(rig):
    first, _ = replayed(rig, "round_robin")
    again, _ = replayed(rig, "round_robin")
    assert first.report.summary() == again.report.summary()


def test_the_picker_keeps_groups_together_and_looks_at_replicas_in_engine_time(rig):
    stage, (asked, found) = replayed(rig, "shipped")
    assert stage.report.summary().answered == 24
    assert 0 < stage.ticks <= 24
    homes = {}
    for record in stage.report.records:
        homes.setdefault(record.group, set()).add(record.replica)
    assert sum(len(where) for where in homes.values()) <= len(homes) + 3
    assert found / asked > 0.4
