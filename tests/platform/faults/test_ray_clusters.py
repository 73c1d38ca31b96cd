"""A model over GPU nodes by the real KubeRay: answers, a dead worker, a change, and the end."""

import os
import re
import signal

import pytest

from scripts.backend.twin_leftovers import leftovers
from scripts.shared.model_client import stream_chat
from simulator.traffic import Outcome
from tests.platform.faults.rig import NAMESPACE, Load, Platform, counts, silent_losses, wait_for
from twin.host.paths import REPOSITORY
from twin.world.capacity import StockLine

pytestmark = pytest.mark.needs_tools

FILE = REPOSITORY / "docs" / "examples" / "ray" / "Pulumi.ray.yaml"
REPLICAS = "{min: 2, max: 2, scale_in_delay_seconds: 5}"
NAME = "llama-3-1-405b-gpu"
HOSTS = 2
CLUSTERS = f"/apis/ray.io/v1/namespaces/{NAMESPACE}/rayclusters"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
BUDGET = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets/llama-3-1-405b"
HEADS = "ray.io/node-type=head"


@pytest.fixture(scope="module")
def platform(tmp_path_factory):
    made = Platform(tmp_path_factory.mktemp("ray"), FILE, REPLICAS)
    try:
        made.bring_up(StockLine(zone="*", accelerator="nvidia-h100-80gb", chips="unlimited"))
        made.settle(2 * HOSTS)
        yield made
    finally:
        made.close()


def members(platform):
    """Names of each cluster's pods."""
    found: dict[str, set[str]] = {}
    for pod in platform.kube.list(PODS, label_selector="ray.io/cluster"):
        found.setdefault(pod["metadata"]["labels"]["ray.io/cluster"], set()).add(
            pod["metadata"]["name"]
        )
    return found


def state(platform, name):
    return platform.kube.get(f"{CLUSTERS}/{name}").get("status", {}).get("state")


def answering(platform):
    found = (stream_chat(platform.url, platform.model, f"Still {n}?").served_by for n in range(12))
    return {re.sub(r"-head-.*", "", name) for name in found}


def test_kuberay_makes_a_head_and_a_worker_for_each_replica_and_only_heads_answer(platform):
    wait_for(lambda: state(platform, f"{NAME}-0") == "ready", 60, platform.states)
    assert {name: len(pods) for name, pods in members(platform).items()} == {
        f"{NAME}-0": HOSTS,
        f"{NAME}-1": HOSTS,
    }
    nodes = [
        pod["spec"]["nodeName"] for pod in platform.kube.list(PODS, label_selector="ray.io/cluster")
    ]
    assert len(set(nodes)) == 2 * HOSTS
    heads = platform.kube.list(PODS, label_selector=HEADS)
    served = platform.kube.list(PODS, label_selector="gke-inference/model=llama-3-1-405b")
    assert {pod["metadata"]["name"] for pod in served} == {pod["metadata"]["name"] for pod in heads}
    assert answering(platform) == {f"{NAME}-0", f"{NAME}-1"}


def test_one_pod_at_a_time_may_be_asked_to_go_and_nothing_scales_the_model(platform):
    wait_for(
        lambda: platform.kube.get(BUDGET)["status"].get("disruptionsAllowed") == 1,
        30,
        platform.states,
    )
    scalers = f"/apis/autoscaling/v2/namespaces/{NAMESPACE}/horizontalpodautoscalers"
    assert platform.kube.list(scalers) == []


@pytest.mark.soak  # twin/tests/running/groups has the death of a worker
def test_a_worker_that_dies_ends_its_cluster_and_the_other_answers_until_it_is_back(platform, say):
    seconds = 16
    before = members(platform)
    [victim] = [name for name in before[f"{NAME}-1"] if "-head-" not in name]
    with Load(platform.url, seconds, rate=6, model=platform.model) as load:
        load.until(2)
        os.kill(platform.process_of(victim), signal.SIGKILL)
    report = load.report
    say(report)
    assert silent_losses(report) == []
    assert counts(report)["answered"] >= 0.9 * len(report.records)
    failed = [one for one in report.records if one.outcome is not Outcome.ANSWERED]
    assert {re.sub(r"-head-.*", "", one.replica) for one in failed} <= {f"{NAME}-1", ""}
    platform.settle(2 * HOSTS)
    assert members(platform) == before  # containers are started again, pods stay
    wait_for(lambda: f"{NAME}-1" in answering(platform), 60, platform.states)


@pytest.mark.soak  # it takes two more starts
def test_a_change_makes_every_cluster_anew(platform):
    file = platform.project / "stacks" / f"Pulumi.{platform.stack}.yaml"
    before = members(platform)
    file.write_text(file.read_text().replace("context: 8192", "context: 4096"))
    platform.up()
    platform.settle(2 * HOSTS)
    after = members(platform)
    assert after.keys() == before.keys()
    for name, pods in after.items():
        assert not pods & before[name]
        assert len(pods) == HOSTS


def test_destroy_takes_clusters_nodes_and_operator_along(platform):
    platform.pulumi("destroy", "--yes", "--skip-preview", "-s", platform.stack)
    assert leftovers(platform.paths) == []
