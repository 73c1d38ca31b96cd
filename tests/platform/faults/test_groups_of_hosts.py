"""A model over slices of several hosts: from the stack to answers, deaths, growth and the end."""

import os
import re
import signal

import openai
import pytest

from scripts.backend.twin_leftovers import leftovers
from scripts.shared.model_client import stream_chat
from simulator.traffic import Outcome
from tests.platform.faults.rig import (
    NAMESPACE,
    ONLY_LONG,
    Load,
    Platform,
    counts,
    silent_losses,
    wait_for,
)
from twin.host.paths import REPOSITORY
from twin.world.capacity import StockLine

# the short form is twin/tests/running/groups; tests/platform/batch has Ray clusters
pytestmark = [pytest.mark.needs_tools, pytest.mark.soak]

FILE = REPOSITORY / "docs" / "examples" / "multi-host" / "Pulumi.slices.yaml"
REPLICAS = "{min: 2, max: 3, scale_in_delay_seconds: 15, scale_in_every_seconds: 5}"
NAME = "llama-3-1-70b-tpu"
HOSTS = 4
RESERVED = StockLine(
    zone="*",
    accelerator="tpu-v6e",
    provisioning="reservation",
    reservation="v6e-large",
    chips="unlimited",
)
SET = f"/apis/leaderworkerset.x-k8s.io/v1/namespaces/{NAMESPACE}/leaderworkersets/{NAME}"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
OF_SET = f"leaderworkerset.sigs.k8s.io/name={NAME}"
POOL = "cloud.google.com/gke-nodepool"
CLASS = "cloud.google.com/compute-class=slices"


@pytest.fixture(scope="module")
def platform(tmp_path_factory):
    made = Platform(tmp_path_factory.mktemp("hosts"), FILE, REPLICAS)
    try:
        made.bring_up(RESERVED)
        made.settle(2 * HOSTS)
        yield made
    finally:
        made.close()


def groups(platform):
    """UIDs of each group's pods, by the name of its leader."""
    found: dict[str, set[str]] = {}
    for pod in platform.kube.list(PODS, label_selector=OF_SET):
        number = pod["metadata"]["labels"]["leaderworkerset.sigs.k8s.io/group-index"]
        found.setdefault(f"{NAME}-{number}", set()).add(pod["metadata"]["uid"])
    return found


def nodes(platform):
    return platform.kube.list("/api/v1/nodes", label_selector=CLASS)


def ready_groups(platform):
    return platform.kube.get(SET)["status"].get("readyReplicas", 0)


def ready_pods(platform):
    return len(platform.ready())


def test_each_group_has_a_slice_that_its_compute_class_made_and_only_leaders_answer(platform):
    assert {leader: len(uids) for leader, uids in groups(platform).items()} == {
        f"{NAME}-0": HOSTS,
        f"{NAME}-1": HOSTS,
    }
    slices: dict[str, set[str]] = {}
    on = {node["metadata"]["name"]: node["metadata"]["labels"][POOL] for node in nodes(platform)}
    assert len(on) == 2 * HOSTS
    for pod in platform.kube.list(PODS, label_selector=OF_SET):
        number = pod["metadata"]["labels"]["leaderworkerset.sigs.k8s.io/group-index"]
        slices.setdefault(number, set()).add(on[pod["spec"]["nodeName"]])
    assert all(len(pools) == 1 for pools in slices.values())
    assert slices["0"] != slices["1"]
    answers = {stream_chat(platform.url, platform.model, f"{n}?").served_by for n in range(12)}
    assert answers <= {f"{NAME}-0", f"{NAME}-1"}


@pytest.mark.parametrize(
    "victim", [pytest.param(f"{NAME}-1", id="leader"), pytest.param(f"{NAME}-0-2", id="worker")]
)
def test_a_host_that_dies_ends_its_group_and_the_other_group_answers_until_it_is_back(
    platform, say, victim
):
    seconds = 20
    platform.settle(2 * HOSTS)
    leader = re.sub(r"-tpu-(\d+).*", r"-tpu-\1", victim)
    (other,) = {f"{NAME}-0", f"{NAME}-1"} - {leader}
    before = groups(platform)
    with Load(platform.url, seconds, rate=6, model=platform.model) as load:
        load.until(2)
        os.kill(platform.process_of(victim), signal.SIGKILL)
    report = load.report
    say(report)
    assert silent_losses(report) == []
    assert counts(report)["answered"] >= 0.9 * len(report.records)
    failed = [one for one in report.records if one.outcome is not Outcome.ANSWERED]
    assert {one.replica for one in failed} <= {leader, ""}
    assert other in report.replicas()
    late = report.between(seconds - 5, seconds)
    assert len(late.of(Outcome.ANSWERED)) == len(late.records)
    platform.settle(2 * HOSTS)
    after = groups(platform)
    assert not after[leader] & before[leader]  # every pod is a new one
    assert after[other] == before[other]  # and nobody else's
    wait_for(lambda: leader in answering(platform), 60, platform.states)


def answering(platform):
    return {stream_chat(platform.url, platform.model, f"Still {n}?").served_by for n in range(8)}


@ONLY_LONG  # whole/ scales a model of one host; twin/tests/running/groups adds a second group
def test_the_autoscaler_adds_and_takes_away_whole_groups_and_no_request_is_lost(
    platform, say, length
):
    platform.settle(2 * HOSTS)
    with Load(platform.url, 45, rate=10, model=platform.model, output_tokens=(600, 600)) as load:
        wait_for(lambda: ready_groups(platform) == 3, 120, platform.states)
        assert len(nodes(platform)) >= 3 * HOSTS
        load.end_after(length(0, 45))
    report = load.report
    say(report)
    assert counts(report)["answered"] == len(report.records)
    assert set(report.replicas()) >= {f"{NAME}-{number}" for number in range(2)}
    wait_for(lambda: len(groups(platform)) == 2, 180, platform.states)
    wait_for(lambda: len(nodes(platform)) == 2 * HOSTS, 180, platform.states)
    assert ready_groups(platform) == 2


def test_a_canary_is_a_group_of_its_own(platform):
    file = platform.project / "stacks" / f"Pulumi.{platform.stack}.yaml"
    text = file.read_text()
    words = "{version: v2, weights: llama-3.1-70b-v2, replicas: {min: 1, max: 1}}"
    before = groups(platform)
    file.write_text(text.replace("        slo:", f"        canary: {words}\n        slo:"))
    platform.up()
    wait_for(lambda: ready_pods(platform) == 3 * HOSTS, 180, platform.states)
    wait_for(lambda: served_by_version(platform) == "llama-3-1-70b-v2-tpu-0", 60, platform.states)
    assert {re.sub(r"-\d+$", "", name) for name in answering(platform)} == {NAME}  # its share is 0
    file.write_text(text)
    platform.pulumi("up", "--yes", "--skip-preview", "-s", platform.stack)
    wait_for(lambda: len(nodes(platform)) == 2 * HOSTS, 180, platform.states)
    assert groups(platform) == before


def served_by_version(platform):
    client = openai.OpenAI(base_url=f"{platform.url}/v1", api_key="none", max_retries=0)
    try:
        answer = client.completions.with_raw_response.create(
            model=platform.model,
            prompt="Hello",
            max_tokens=4,
            extra_headers={"x-model-version": "v2"},
        )
    except openai.OpenAIError as error:
        return str(error)
    return answer.headers["x-gke-inference-pod"]


def test_destroy_takes_groups_slices_and_operator_along(platform):
    platform.pulumi("destroy", "--yes", "--skip-preview", "-s", platform.stack)
    assert leftovers(platform.paths) == []
