"""The laboratory with the real Envoy and the real picker, a few requests long."""

import asyncio
from dataclasses import replace

import pytest
import uvloop

from bench.laboratory.lockstep import Lockstep
from bench.laboratory.policies import policies
from bench.laboratory.replicas import Replicas
from bench.laboratory.rig import Rig
from simulator.replays.modelled_picker import ModelledPicker, Seen
from simulator.replays.picker_configs import Facts
from simulator.replays.planning import requests_of
from simulator.replays.replica_spec import ReplicaSpec
from simulator.traffic import Trace, multi_adapter, shared_prefix
from twin.toolchain import ToolError, envoy, tool

pytestmark = [pytest.mark.needs_tools, pytest.mark.timeout(600)]
SPEC = ReplicaSpec("nvidia-l4", 1, "meta-llama/Llama-3.1-8B", ("--max-model-len=8192",))
FACTS = Facts()
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


class Watched(Lockstep):
    """A lockstep that keeps what the picker saw of the replicas when each request was sent."""

    def __init__(self, replicas, url, *, with_picker):
        super().__init__(replicas, url, with_picker=with_picker)
        self.seen = []
        self._engines = replicas.engines
        self._state = [Seen.of(engine.core) for engine in self._engines]

    async def _tick(self, moment):
        before = self.ticks
        await super()._tick(moment)
        if self.ticks > before:
            self._state = [Seen.of(engine.core) for engine in self._engines]

    async def _send(self, client, number, ask, start):
        self.seen.append(self._state)
        return await super()._send(client, number, ask, start)


def replayed(rig, name, spec=SPEC, trace=TRACE, facts=FACTS):
    policy = next(one for one in policies(facts) if one.name == name)

    async def main():
        addresses = [rig.address(number) for number in range(len(NAMES))]
        specs = [spec] * len(NAMES)
        async with Replicas(specs, NAMES, addresses, "model") as replicas:
            await asyncio.to_thread(rig.replicas, NAMES)
            url = await asyncio.to_thread(rig.gateway, policy, len(NAMES))
            lab = Watched(replicas, url, with_picker=policy.picker is not None)
            return await lab.replay(trace), lab, replicas.cache_tokens()

    try:
        return uvloop.run(main())
    finally:
        rig.end_run()


def test_envoy_takes_turns_and_every_request_is_answered_twice_the_same(rig):
    report, lab, _ = replayed(rig, "round_robin")
    summary = report.summary()
    assert (summary.sent, summary.answered, summary.lag_p99_ms) == (24, 24, 0.0)
    assert sorted(report.replicas().values()) == [8, 8, 8]
    assert lab.ticks == 0
    assert all(record.tokens == 30 for record in report.records)
    again, _, _ = replayed(rig, "round_robin")
    assert again.summary() == summary


def test_the_picker_keeps_groups_together_and_looks_at_replicas_in_engine_time(rig):
    report, lab, (asked, found) = replayed(rig, "shipped")
    assert report.summary().answered == 24
    assert 0 < lab.ticks <= 24
    homes = {}
    for record in report.records:
        homes.setdefault(record.group, set()).add(record.replica)
    assert sum(len(where) for where in homes.values()) <= len(homes) + 3
    assert found / asked > 0.4


ADAPTERS = [f"a{number}" for number in range(6)]
SLOTS = (
    "--max-model-len=8192", "--enable-lora", "--max-loras=2", "--lora-modules",
    *(f"{name}=gs://adapters/{name}" for name in ADAPTERS),
)  # fmt: skip
SMALL = replace(SPEC, flags=("--max-model-len=8192", "--max-num-seqs=2"))
BURST = Trace.merge(
    "burst",
    shared_prefix(
        rate=60, seconds=2, seed=2, groups=2, prompts_per_group=40, prefix_tokens=600,
        question_tokens=50, output_tokens=40,
    ),
)  # fmt: skip
MIXED = Trace.merge(
    "adapters",
    multi_adapter(
        rate=8, seconds=5, seed=1, adapters=ADAPTERS, prompt_tokens=200, output_tokens=60
    ),
)


@pytest.mark.parametrize(
    ("policy", "spec", "trace", "facts"),
    [
        ("picker_defaults", SPEC, TRACE, FACTS),
        ("shipped", SMALL, BURST, FACTS),
        ("shipped", replace(SPEC, flags=SLOTS), MIXED, Facts(has_adapters=True)),
    ],
    ids=["prefixes", "full replicas", "adapters"],
)
def test_each_choice_of_the_real_picker_has_the_highest_score_of_the_model(
    rig, policy, spec, trace, facts
):
    report, lab, _ = replayed(rig, policy, spec, trace, facts)
    config = next(p.picker for p in policies(facts) if p.name == policy)
    assert config is not None
    model = ModelledPicker(config)
    numbers = range(len(NAMES))
    requests = requests_of(trace, "model")
    left_out = 0
    for request, record, seen in zip(requests, report.records, lab.seen, strict=True):
        chosen = NAMES.index(record.replica)
        blocks = model.blocks(request, seen)
        scores = model.scores(request, seen, numbers, blocks)
        left_out += len(scores) < len(NAMES)
        assert scores[chosen] == pytest.approx(max(scores.values()), abs=1e-4)
        model.remember(blocks, chosen, seen[chosen])
    if trace is BURST:
        assert left_out, "no replica was full"
