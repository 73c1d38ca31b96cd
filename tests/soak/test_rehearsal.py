"""Scenarios and events on the running twin, and what a rehearsal says about them.

The short form is `tests/contract/infra/test_rehearsal.py`, with recorded timelines. With TIMELINES
in the environment, each run is written to that folder.
"""

import json
import threading
import time

import pytest

from infra.reading.load import STACKS
from scripts.develop.twin_timeline import recorded
from scripts.rehearse.changes import with_changes
from scripts.shared.clusters import of_twin
from tests.contract.infra.rehearsed_scenario import (
    CANARY_AT,
    EVENTS,
    EVENTS_TRAFFIC,
    canary_shares,
    of_events,
    previewed,
    shares_of_rehearsal,
)
from tests.platform.example_checkout import checkout, output_of
from tests.soak.rehearsed import compared, kept
from twin import daemon
from twin.host.paths import REPOSITORY, TwinPaths
from twin.world.events import Events

pytestmark = [pytest.mark.needs_tools, pytest.mark.soak, pytest.mark.timeout(2400)]

DEPLOYMENT = "/apis/apps/v1/namespaces/models/deployments/llama-3-1-8b-gpu"
ROUTES = "/apis/gateway.networking.k8s.io/v1/namespaces/models/httproutes"
ROLLOUT_AT, SLOWDOWN, PERCENT = 60.0, 1.4, 40


@pytest.fixture(scope="module")
def described():
    return previewed(STACKS / "Pulumi.local.yaml")[1]


@pytest.mark.parametrize("name", ["burst", "spot-preemption", "tpu-stockout", "zone-loss"])
def test_a_rehearsal_has_the_replicas_and_refusals_of_the_twin(
    described, name, tmp_path, record_property
):
    paths = TwinPaths(tmp_path / "twin")
    try:
        output_of(REPOSITORY, paths, "up", "--stack", "local", "--scenario", name)
        timeline = json.loads(json.dumps(recorded(paths, "local", name)))
        output_of(REPOSITORY, paths, "down")
    finally:
        daemon.shut_down(paths)
    kept(timeline, name)
    within, refused = compared(described, name, timeline)
    asked = timeline.get("client") or timeline["requests"]
    record_property(
        "figures",
        f"{name}: replicas within one for {within:.0%} of the time; refused on the twin "
        f"{asked['refused']}, in the rehearsal {refused}",
    )


def roll_out(paths):
    """Let the engines of a model take longer steps, as `rollout` with a `step_factor` does."""
    (cluster,) = of_twin(paths)
    template = cluster.kube.get(DEPLOYMENT)["spec"]["template"]["spec"]
    (engine,) = (
        each["name"]
        for each in template["containers"]
        if "nvidia.com/gpu" in each.get("resources", {}).get("limits", {})
    )
    variable = {"name": "GKE_INFERENCE_SIM_SLOWDOWN", "value": str(SLOWDOWN)}
    container = {"name": engine, "env": [variable]}
    spec = {"template": {"spec": {"containers": [container]}}}
    cluster.kube.patch(DEPLOYMENT, {"spec": spec}, "strategic")


def shift(paths):
    """Give the canary its share in the routes, as another `percent` of the stack does."""
    (cluster,) = of_twin(paths)
    shifted = 0
    for route in cluster.kube.get(ROUTES)["items"]:
        rules = route["spec"]["rules"]
        for rule in rules:
            for ref in rule["backendRefs"] if len(rule.get("backendRefs", ())) == 2 else ():
                ref["weight"] = PERCENT if "sglang" in ref["name"] else 100 - PERCENT
                shifted += 1
        name = route["metadata"]["name"]
        cluster.kube.patch(f"{ROUTES}/{name}", {"spec": {"rules": rules}})
    assert shifted


def happen(paths, done):
    """Roll out and shift at the times of the file of events, after the first request."""
    while not (begun := [e for e in Events(paths.events_file).read() if e["subject"] == "load"]):
        time.sleep(0.2)
    for at, change in ((ROLLOUT_AT, roll_out), (CANARY_AT, shift)):
        time.sleep(max(0.0, begun[0]["time"] + at - time.time()))
        change(paths)
        done.append(change)


def test_a_rollout_and_a_canary_have_the_replicas_and_answers_of_the_twin(
    tmp_path, record_property
):
    folder, paths = checkout(tmp_path / "checkout", "engines"), TwinPaths(tmp_path / "twin")
    file = folder / "stacks" / "Pulumi.engines.yaml"
    file.write_text(of_events(file.read_text()))
    done = []
    try:
        output_of(folder, paths, "up", "--stack", "engines")
        owner = threading.Thread(target=happen, args=(paths, done), daemon=True)
        owner.start()
        scenario = ("--scenario", str(EVENTS_TRAFFIC))
        output_of(folder, paths, "up", "--stack", "engines", *scenario)
        owner.join(10)
        timeline = json.loads(json.dumps(recorded(paths, "engines", str(EVENTS_TRAFFIC))))
        timeline["scenario"] = EVENTS_TRAFFIC.stem
        output_of(folder, paths, "down", "--stack", "engines")
    finally:
        daemon.shut_down(paths)
    assert done == [roll_out, shift]
    (requests,) = tmp_path.rglob("requests.jsonl")
    answers = [json.loads(line) for line in requests.read_text().splitlines()]
    twin = [(one["due"], "sglang" in one["replica"]) for one in answers if one["replica"]]
    timeline["canary"] = canary_shares(twin)
    kept(timeline, "events")
    plan, platform = previewed(file)
    own = []
    within, refused = compared(
        with_changes(platform, plan, EVENTS),
        str(EVENTS_TRAFFIC),
        timeline,
        lambda found: shares_of_rehearsal(found, own),
    )
    for on_twin, in_rehearsal in zip(timeline["canary"], canary_shares(own), strict=True):
        # Envoy draws the version of each request: three standard deviations of 360 requests
        assert in_rehearsal == pytest.approx(on_twin, abs=0.08)
    record_property(
        "figures",
        f"replicas within one for {within:.0%} of the time; refused on the twin "
        f"{timeline['requests']['refused']}, in the rehearsal {refused}; the canary's share "
        f"{' and '.join(f'{share:.1%}' for share in timeline['canary'])} on the twin",
    )
