"""Checks of the location of replicas and their start times."""

from dataclasses import replace

import pytest

from infra.estimate.cold_starts import starts
from scripts.accept.placement import cold_starts, placements, started
from scripts.accept.row import Verdict
from tests.unit.accept.fake_platform import GPU_NODE, TPU_NODE, node, pod
from twin.wire.kube import KubeError

NAME = "llama-3.1-8b in us-central1"


def placed(platform):
    (row,) = placements(platform)
    return row


def test_replicas_on_the_first_rung_are_met(platform):
    row = placed(platform)
    assert (row.name, row.verdict) == (NAME, Verdict.MET)
    assert row.predicted == "at least 1 ready, preferably on tpu-v6e 2x2 reservation"
    assert row.measured == "1 ready: 1 on tpu-v6e 2x2 reservation"


@pytest.mark.parametrize(
    ("labels", "rung"),
    [
        (GPU_NODE, "nvidia-l4 x1 on-demand (fallback, rung 2)"),
        ({**GPU_NODE, "cloud.google.com/gke-spot": "true"}, "nvidia-l4 x1 spot (fallback, rung 3)"),
    ],
)
def test_replicas_on_another_rung_are_met_and_the_fallback_is_named(platform, fake, labels, rung):
    fake.cluster.nodes = [node("gpu", labels)]
    fake.cluster.pods = [pod("llama-1", "gpu")]
    row = placed(platform)
    assert (row.verdict, row.measured) == (Verdict.MET, f"1 ready: 1 on {rung}")


@pytest.mark.parametrize(
    "labels",
    [
        {**TPU_NODE, "cloud.google.com/gke-tpu-topology": "2x4"},
        {**GPU_NODE, "node.kubernetes.io/instance-type": "g2-standard-48"},
        {key: value for key, value in TPU_NODE.items() if "reservation" not in key},
        {},
    ],
)
def test_a_replica_on_a_node_of_no_rung_is_not_met(platform, fake, labels):
    fake.cluster.nodes = [node("tpu", labels)]
    row = placed(platform)
    assert row.verdict is Verdict.NOT_MET
    assert row.measured == "1 ready: 1 on a node that belongs to no rung of the stack"


def test_too_few_ready_replicas_are_not_met(platform, fake):
    fake.cluster.pods = [pod("llama-0", "tpu", ready=None)]
    assert placed(platform).measured == "0 ready"
    assert placed(platform).verdict is Verdict.NOT_MET
    fake.cluster.pods = [pod("llama-0", "tpu")]
    fake.cluster.pods[0]["metadata"]["deletionTimestamp"] = "2026-11-22T13:00:00Z"
    assert placed(platform).verdict is Verdict.NOT_MET


def test_a_cluster_that_refuses_is_not_seen(platform, fake):
    fake.cluster.error = KubeError(403, "Forbidden", "pods is forbidden", {})
    row = placed(platform)
    assert (row.verdict, row.is_unseen) == (Verdict.NOT_CHECKED, True)
    assert row.measured == "the cluster refuses the request or does not answer: pods is forbidden"


def test_the_newest_replica_of_each_rung_is_put_beside_its_estimate(platform, fake):
    fake.cluster.pods = [pod("llama-0", "tpu", ready="2026-11-22T12:59:00Z"), pod("llama-1", "gpu")]
    newer = pod("llama-2", "tpu", ready="2026-11-22T13:05:00Z")
    newer["metadata"]["creationTimestamp"] = "2026-11-22T13:00:00Z"
    fake.cluster.pods.insert(0, newer)
    rows = {row.name: row for row in cold_starts(platform)}
    assert set(rows) == {
        f"{NAME} on tpu-v6e 2x2 reservation",
        f"{NAME} on nvidia-l4 x1 on-demand",
    }
    row = rows[f"{NAME} on tpu-v6e 2x2 reservation"]
    assert (row.measured, row.verdict) == ("300 s", Verdict.MET)


def test_no_ready_replica_has_no_cold_start(platform, fake):
    fake.cluster.pods = []
    (row,) = cold_starts(platform)
    assert (row.verdict, row.measured) == (Verdict.NOT_CHECKED, "no replica is ready")


def estimate(platform):
    return starts(platform.plan)[0]


def test_a_start_within_the_estimate_is_met_and_a_longer_one_is_not(platform):
    its = estimate(platform)
    new = node("tpu", TPU_NODE)
    row = started(1, "x", its, pod("llama-0", "tpu"), new)
    assert (row.measured, row.verdict) == ("360 s", Verdict.MET)
    assert row.predicted == (
        f"{its.first.seconds:.0f} s ({its.start.low:.0f} to {its.first.high:.0f}), with a new node"
    )
    late = pod("llama-0", "tpu", ready="2026-11-22T12:59:00Z")
    assert its.first.high < 59 * 60
    assert started(1, "x", its, late, new).verdict is Verdict.NOT_MET


def test_a_node_that_was_there_is_not_in_the_estimate(platform):
    its = estimate(platform)
    old = node("tpu", TPU_NODE, created="2026-11-22T11:00:00Z")
    row = started(1, "x", its, pod("llama-0", "tpu"), old)
    without = sum(stage.seconds for stage in its.first.stages if stage.name != "node")
    assert row.predicted.startswith(f"{without:.0f} s (")
    assert row.predicted.endswith("on an existing node")


def test_a_clock_that_runs_faster_is_measured_and_not_judged(platform):
    fast = replace(platform, speed=100.0)
    (row,) = cold_starts(fast)
    assert row.verdict is Verdict.NOT_CHECKED
    assert row.measured == ("36000 s, by a clock that runs 100 times faster than this machine's")


def test_the_start_of_a_container_that_restarted_is_not_known(platform):
    new = node("tpu", TPU_NODE)
    row = started(1, "x", estimate(platform), pod("llama-0", "tpu", restarts=1), new)
    assert row.verdict is Verdict.NOT_CHECKED
