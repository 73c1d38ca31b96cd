"""A model over GPU nodes by the real KubeRay: answers, scaling, a death, a change, and the end."""

import os
import re
import signal
import time

import pytest
import yaml

from scripts.backend.twin_leftovers import leftovers
from scripts.shared.model_client import stream_chat
from simulator.traffic import Outcome
from tests.platform.batch.rig import RAY_MODEL
from tests.platform.faults.conftest import say
from tests.platform.faults.rig import NAMESPACE, Load, counts, silent_losses, wait_for

pytestmark = pytest.mark.needs_tools

__all__ = ["say"]

NAME = "llama-3-1-405b-gpu"
HOSTS = 2
CLUSTERS = f"/apis/ray.io/v1/namespaces/{NAMESPACE}/rayclusters"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
BUDGET = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets/llama-3-1-405b"
HEADS = "ray.io/node-type=head"
SET = f"/apis/gke-inference.internal/v1/namespaces/{NAMESPACE}/rayclustersets/{NAME}"
SCALER = f"/apis/autoscaling/v2/namespaces/{NAMESPACE}/horizontalpodautoscalers/{NAME}"
CLASS = "cloud.google.com/compute-class=nodes"
LAST = f"{NAME}-2"


@pytest.fixture(scope="module")
def platform(whole):
    made = whole.of(RAY_MODEL)
    made.settle(2 * HOSTS)
    return made


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


def test_the_cluster_beyond_the_replicas_is_suspended_and_the_set_counts_the_others(platform):
    assert platform.kube.get(f"{CLUSTERS}/{LAST}")["spec"]["suspend"] is True
    wait_for(lambda: counted(platform) == (2, 2), 30, platform.states)


def counted(platform):
    """Running and ready clusters, as the set reports them."""
    status = platform.kube.get(SET).get("status", {})
    return status.get("replicas"), status.get("readyReplicas")


def evictions(platform):
    """Pods that must stay, and pods that may be asked to go."""
    budget = platform.kube.get(BUDGET)
    return budget["spec"]["minAvailable"], budget["status"].get("disruptionsAllowed")


def test_one_pod_at_a_time_may_be_asked_to_go(platform):
    wait_for(lambda: evictions(platform) == (2 * HOSTS - 1, 1), 30, platform.states)


def bounds(platform, least, most):
    """Set the bounds of the autoscaler, which then scales without waiting for a metric."""
    platform.kube.patch(SCALER, {"spec": {"minReplicas": least, "maxReplicas": most}})


def test_a_cluster_that_is_added_serves_and_ends_its_requests_when_it_is_taken_away(platform, say):
    bounds(platform, 3, 3)
    wait_for(lambda: LAST in answering(platform), 90, platform.states)
    wait_for(lambda: evictions(platform) == (3 * HOSTS - 1, 1), 30, platform.states)
    assert counted(platform) == (3, 3)
    begun = time.monotonic()
    with Load(platform.url, 6, rate=4, model=platform.model, output_tokens=(150, 150)) as load:
        load.until(4)
        bounds(platform, 2, 2)
        wait_for(lambda: is_leaving(platform, LAST), 30, platform.states)
        left = time.monotonic() - begun
    report = load.report
    say(report)
    assert counts(report)["answered"] == len(report.records)
    ended = [one for one in report.records if one.replica.startswith(LAST) and one.done > left]
    assert ended
    wait_for(lambda: evictions(platform) == (2 * HOSTS - 1, 1), 30, platform.states)
    bounds(platform, 2, 3)


def is_leaving(platform, name):
    """Return whether all pods of a cluster are terminating."""
    pods = platform.kube.list(PODS, label_selector=f"ray.io/cluster={name}")
    return all("deletionTimestamp" in pod["metadata"] for pod in pods)


def nodes(platform):
    return len(platform.kube.list("/api/v1/nodes", label_selector=CLASS))


@pytest.mark.soak  # the test above scales without load; whole/ scales a model of one host by load
def test_load_adds_a_cluster_with_its_nodes_and_no_load_takes_both_away(platform, say):
    with Load(platform.url, 45, rate=10, model=platform.model, output_tokens=(600, 600)) as load:
        wait_for(lambda: counted(platform) == (3, 3), 120, platform.states)
        assert nodes(platform) == 3 * HOSTS
        platform.pulumi("preview", "--refresh", "--expect-no-changes", "-s", platform.stack)
        load.end_after(0)
    report = load.report
    say(report)
    assert counts(report)["answered"] == len(report.records)
    wait_for(lambda: set(members(platform)) == {f"{NAME}-0", f"{NAME}-1"}, 180, platform.states)
    wait_for(lambda: nodes(platform) == 2 * HOSTS, 180, platform.states)


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
    stack = yaml.safe_load(file.read_text())
    stack["config"]["gke-inference:platform"]["models"][RAY_MODEL]["context"] = 4096
    file.write_text(yaml.safe_dump(stack))
    platform.up()
    platform.settle(2 * HOSTS)
    after = members(platform)
    assert after.keys() == before.keys()
    for name, pods in after.items():
        assert not pods & before[name]
        assert len(pods) == HOSTS


@pytest.mark.soak  # tests/platform/whole destroys a stack; the other tests have each object's owner
def test_destroy_takes_clusters_nodes_and_operator_along(platform):
    platform.pulumi("destroy", "--yes", "--skip-preview", "-s", platform.stack)
    assert leftovers(platform.paths) == []
