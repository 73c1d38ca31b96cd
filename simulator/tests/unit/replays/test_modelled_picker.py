"""The model of the picker scores as upstream's source does; engines behind it answer everything."""

import pytest

from simulator.engine.replay import Cluster, TraceRequest
from simulator.replays.modelled_picker import ModelledPicker, Seen
from simulator.replays.picker_configs import UPSTREAM_DEFAULTS
from simulator.replays.planning import picked, report_of, requests_of
from simulator.replays.replica_spec import ReplicaSpec
from simulator.traffic import Outcome, Trace, shared_prefix

SPEC = ReplicaSpec("nvidia-l4", 1, "meta-llama/Llama-3.1-8B", ("--max-model-len=8192",))


def ask(adapter=None):
    return TraceRequest(0.0, 160, 5, question="the same", adapter=adapter)


def config(*scorers):
    plugins = "".join(f"- type: {name}\n" for name, _ in scorers)
    refs = "".join(f"  - pluginRef: {name}\n    weight: {weight}\n" for name, weight in scorers)
    return f"plugins:\n{plugins}schedulingProfiles:\n- name: default\n  plugins:\n{refs}"


def test_the_shortest_queue_gets_the_request():
    picker = ModelledPicker(config(("queue-scorer", 1)))
    assert picker.pick(ask(), [Seen(waiting=3), Seen(waiting=1), Seen(waiting=2)]) == 1


def test_the_emptiest_cache_gets_the_request():
    picker = ModelledPicker(config(("kv-cache-utilization-scorer", 1)))
    assert picker.pick(ask(), [Seen(usage=0.5), Seen(usage=0.4), Seen(usage=0.6)]) == 1


def test_a_prefix_goes_where_it_went_before_unless_load_weighs_more():
    picker = ModelledPicker(UPSTREAM_DEFAULTS)
    first = picker.pick(ask(), [Seen(), Seen()])
    assert all(picker.pick(ask(), [Seen(), Seen()]) == first for _ in range(20))
    loaded = [Seen(), Seen()]
    loaded[first] = Seen(waiting=9, usage=0.9)
    assert picker.pick(ask(), loaded) != first


def test_an_adapter_goes_where_it_runs_then_where_there_is_room_then_where_it_waits():
    picker = ModelledPicker(config(("lora-affinity-scorer", 1)))
    full, others = 2, frozenset({"b", "c"})
    running = Seen(running_adapters=frozenset({"a", "b"}), max_adapters=full)
    room = Seen(max_adapters=full)
    waiting = Seen(running_adapters=others, waiting_adapters=frozenset({"a"}), max_adapters=full)
    none = Seen(running_adapters=others, max_adapters=full)
    for seen in ([none, waiting, room, running], [none, waiting, room], [none, waiting]):
        assert picker.pick(ask(adapter="a"), seen) == len(seen) - 1


def test_an_unknown_scorer_is_refused():
    picker = ModelledPicker(config(("no-such-scorer", 1)))
    with pytest.raises(ValueError, match="got 'no-such-scorer'"):
        picker.pick(ask(), [Seen(), Seen()])


def shared():
    return Trace.merge(
        "t",
        shared_prefix(
            rate=6, seconds=5, seed=1, groups=4, prefix_tokens=1500, question_tokens=50,
            output_tokens=40,
        ),
    )  # fmt: skip


def replayed(cluster):
    trace = shared()
    return report_of(cluster.play(requests_of(trace, "model"))), trace


def two(route, slow=1.0):
    cluster = Cluster(deployments(), route)
    cluster.engines[0].slow_down(slow, 0.0)
    return cluster


def deployments():
    return [SPEC.deployment(f"r{n}", "127.0.0.1", "model") for n in range(2)]


def test_every_request_of_a_replay_is_answered_in_full():
    report, trace = replayed(two(lambda a, s: 0))
    assert len(report.records) == len(trace.asks) == 30
    assert {(r.outcome, r.tokens) for r in report.records} == {(Outcome.ANSWERED, 40)}
    assert all((r.first or 0.0) > r.due for r in report.records)
    assert {r.prompt_tokens for r in report.records} == {1550}


def test_affinity_finds_more_prefixes_than_taking_turns():
    turns = iter(range(10_000))
    trace = requests_of(shared(), "model")
    taken = two(lambda a, s: next(turns) % 2).play(trace).prefix_hit_ratio
    kept = picked(deployments(), UPSTREAM_DEFAULTS).play(trace).prefix_hit_ratio
    assert taken is not None
    assert kept is not None
    assert kept > 1.1 * taken


def test_a_slow_replica_is_slow():
    usual, _ = replayed(two(lambda a, s: 0))
    slow, _ = replayed(two(lambda a, s: 0, slow=3.0))
    slower, faster = slow.summary().tpot_ms, usual.summary().tpot_ms
    assert slower is not None
    assert faster is not None
    assert slower.p50 > 2 * faster.p50


def test_a_picker_knows_its_replicas_as_of_its_last_look():
    seen = []
    picker = ModelledPicker(UPSTREAM_DEFAULTS)
    cluster = Cluster(deployments(), picker, lambda engines: seen.append(engines[0].unfinished))
    cluster.play([TraceRequest(moment, 100, 2) for moment in (0.0, 0.01, 0.06, 5.0)])
    assert len(seen) == 3  # 10 ms after the first look there is none
