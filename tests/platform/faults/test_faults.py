"""Effects of faults under load; no request is ever lost without an error for the client."""

import os
import signal

import pytest

from simulator.traffic import Outcome
from tests.platform.faults.rig import (
    MODEL,
    NAMESPACE,
    NO_L4,
    NO_OTHER_TPU,
    ONLY_LONG,
    SPEED,
    STACK,
    TPU,
    Load,
    Slowed,
    counts,
    lost_with_the_picker,
    silent_losses,
    wait_for,
)
from tests.platform.observe.alerts import alert
from twin.world.capacity import StockLine

pytestmark = pytest.mark.needs_tools

NO_SPOT_L4 = StockLine(zone="*", accelerator="nvidia-l4", provisioning="spot", chips=0)
NOTHING = StockLine(zone="*", accelerator="*", chips=0)
POOL = "/apis/inference.networking.k8s.io/v1/namespaces/{ns}/inferencepools"
POLICY = "/apis/networking.gke.io/v1/namespaces/{ns}/gcpbackendpolicies"


NOTICED_SECONDS = 5
"""The gateway has noticed by then that a picker is away."""


def names(report, outcome):
    return {record.replica for record in report.of(outcome)}


def answered(record):
    return record.outcome is Outcome.ANSWERED


def kill_a_replica(platform, say, length):
    """Kill one of three engines under load."""
    victim = platform.ready()[0]
    seconds = length(12, 20)
    with Load(platform.url, seconds) as load:
        load.until(length(2, 5))
        os.kill(platform.process_of(victim), signal.SIGKILL)
    say(load.report)
    assert silent_losses(load.report) == []
    cut = [record for record in load.report.lost if record.status == 200]
    assert {record.replica for record in cut} <= {victim}
    assert counts(load.report)["answered"] >= 0.9 * len(load.report.records)
    late = load.report.between(seconds - length(4, 5), seconds)
    assert len(late.of(Outcome.ANSWERED)) == len(late.records)


def preempt_a_node(platform, say, length):
    """Take the one spot node of three nodes away under load."""
    on_spot = next(p for p in platform.ready() if "-gpu-" in p)
    with Load(platform.url, length(8, 20)) as load:
        load.until(length(2, 5))
        platform.world(TPU, NO_OTHER_TPU, NO_L4, NO_SPOT_L4)
        wait_for(lambda: on_spot not in platform.ready(), 30, platform.states)
    platform.world(TPU, NO_OTHER_TPU, NO_L4)
    say(load.report)
    assert on_spot in names(load.report, Outcome.ANSWERED)
    assert counts(load.report)["answered"] == len(load.report.records)


@ONLY_LONG  # tests/platform/batch/test_faults_of_replicas.py has the short form
def test_a_killed_replica_costs_the_answers_it_was_giving_and_no_others(
    settled_platform, say, length
):
    kill_a_replica(settled_platform, say, length)


@ONLY_LONG  # the same
def test_a_preempted_node_finishes_its_answers_within_its_notice(settled_platform, say, length):
    preempt_a_node(settled_platform, say, length)


@ONLY_LONG  # twin/tests/running/gateway/test_gateway_updates.py kills the picker of either mode
def test_with_a_pool_that_fails_open_a_killed_picker_costs_only_what_it_had_in_hand(
    settled_platform, say, length, record_property
):
    begun = length(2, 5)
    before = lost_with_the_picker(settled_platform.cluster)
    with Load(settled_platform.url, length(12, 20)) as load:
        load.until(begun)
        os.kill(settled_platform.process_of(settled_platform.picker()), signal.SIGKILL)
    say(load.report)
    assert silent_losses(load.report) == []
    lost = lost_with_the_picker(settled_platform.cluster) - before
    by_cause = ", ".join(f"{what}: {number}" for what, number in sorted(lost.items()))
    record_property("figures", f"not answered, by cause: {by_cause}")
    assert lost.total() == len(load.report.records) - counts(load.report)["answered"]
    noticed = begun + NOTICED_SECONDS
    assert [r for r in load.report.records if not answered(r) and r.due > noticed] == []


@ONLY_LONG  # the same
def test_with_a_pool_that_fails_closed_a_killed_picker_refuses_until_it_is_back(
    settled_platform, say, length
):
    path = POOL.format(ns=NAMESPACE)
    [pool] = settled_platform.kube.list(path)
    where = f"{path}/{pool['metadata']['name']}"

    def mode(name):
        change = {"spec": {"endpointPickerRef": {"failureMode": name}}}
        settled_platform.kube.patch(where, change, type="merge")

    mode("FailClose")
    try:
        before = settled_platform.picker_restarts()
        with Load(settled_platform.url, length(120, 40)) as load:
            load.until(length(2, 5))
            os.kill(settled_platform.process_of(settled_platform.picker()), signal.SIGKILL)
            wait_for(
                lambda: settled_platform.picker_restarts() > before, 60, settled_platform.states
            )
            wait_for(
                lambda: all(settled_platform.answers() for _ in range(3)),
                110,
                settled_platform.states,
            )
            load.end_after(length(4, 40))
    finally:
        mode("FailOpen")
    say(load.report)
    assert silent_losses(load.report) == []
    refused = load.report.of(Outcome.REFUSED)
    assert refused
    assert all(record.detail for record in refused)
    back = max(record.due for record in refused)
    after = [record for record in load.report.records if record.due > back]
    assert len(after) > 20
    assert all(answered(record) for record in after)


@ONLY_LONG  # twin/tests/running/gateway/test_gateway_reload.py changes routes under load
def test_a_gateway_whose_configuration_changes_all_the_time_drops_no_request(
    settled_platform, say, length
):
    path = POLICY.format(ns=NAMESPACE)
    policies = [p["metadata"]["name"] for p in settled_platform.kube.list(path)]
    seconds = length(8, 20)
    with Load(settled_platform.url, seconds) as load:
        for second in range(1, int(seconds) - 1):
            load.until(second)
            change = {"spec": {"default": {"timeoutSec": 600 + second}}}
            for name in policies:
                settled_platform.kube.patch(f"{path}/{name}", change, type="merge")
    say(load.report)
    assert counts(load.report)["answered"] == len(load.report.records)


@ONLY_LONG  # twin/tests/running/gateway/test_gateway_requests.py has a picker with a long queue
def test_a_slow_replica_gets_less_and_everything_is_answered(settled_platform, say, length):
    slow, *others = [name for name in settled_platform.ready() if "-tpu-" in name]
    with (
        Slowed(settled_platform.process_of(slow)),
        Load(settled_platform.url, length(10, 25), rate=30) as load,
    ):
        pass
    say(load.report)
    assert counts(load.report)["answered"] == len(load.report.records)
    of_each = load.report.replicas()
    assert of_each.get(slow, 0) < min(of_each[other] for other in others)


@ONLY_LONG  # twin/tests/running/gateway/test_gateway_updates.py adds and deletes pods under load
def test_a_rollout_of_new_weights_drops_no_request(settled_platform, say, length):
    # a rollout takes a replica away only when no other is missing
    settled_platform.world(TPU.model_copy(update={"chips": 64}), NO_L4)
    file = settled_platform.project / "stacks" / f"Pulumi.{STACK}.yaml"
    text = file.read_text()
    wait_for(
        lambda: sum("-tpu-" in name for name in settled_platform.ready()) == 3,
        120,
        settled_platform.states,
    )
    before = set(settled_platform.ready())
    file.write_text(text.replace("weights: llama-3.1-8b", "weights: llama-3.1-8b-v2"))
    try:
        with Load(settled_platform.url, 90) as load:
            load.until(2)
            settled_platform.up()
            wait_for(
                lambda: (
                    len(set(settled_platform.ready()) - before) >= 3
                    and not before & set(settled_platform.ready())
                ),
                180,
                settled_platform.states,
            )
            load.end_after(length(2, 90))
        say(load.report)
    finally:
        file.write_text(text)
    assert counts(load.report)["answered"] == len(load.report.records)


@pytest.mark.soak  # tests/platform/observe has each alert with promtool, whole/ the quiet ones
def test_an_alert_fires_when_no_replica_is_left_and_is_quiet_again_when_one_is_back(
    settled_platform,
):
    def state():
        return alert(settled_platform.cluster, "NoReadyReplica")["state"]

    wait_for(lambda: state() == "inactive", 60, state)
    settled_platform.world(NOTHING)
    try:
        wait_for(lambda: state() == "firing", 180, state)
        rule = alert(settled_platform.cluster, "NoReadyReplica")
        assert settled_platform.ready() == []
    finally:
        settled_platform.world(TPU, NO_OTHER_TPU, NO_L4)
    assert rule["duration"] == pytest.approx(120 / SPEED)  # it waited, on the twin's clock
    (active,) = rule["alerts"]
    assert active["labels"]["job"] == MODEL.replace(".", "-")
    assert (
        alert(settled_platform.cluster, "EndpointPickerDown")["state"] == "inactive"
    )  # nobody else is woken
    wait_for(lambda: state() == "inactive", 180, state)
    settled_platform.settle(1)
