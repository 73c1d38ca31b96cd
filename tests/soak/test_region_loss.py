"""A region of three is lost under traffic from all of them, and comes back."""

import json
from collections import Counter

import pytest

from scripts.develop.twin_timeline import recorded
from tests.contract.infra.rehearsed_scenario import previewed, rehearsed, share_within
from tests.platform.example_checkout import checkout, output_of
from tests.soak.rehearsed import kept
from twin import daemon
from twin.host import processes
from twin.host.paths import TwinPaths
from twin.world.events import Events

pytestmark = [pytest.mark.needs_tools, pytest.mark.soak, pytest.mark.timeout(1800)]

STACK = ("--stack", "three-regions")
FILE = "Pulumi.three-regions.yaml"
LOST = "europe-west4"
SHARE_AFTERWARDS = 0.9
"""Of the requests of clients nearby, from the region's first answer to the end."""
NOTICED_SECONDS = 10.0
"""A lost region is ejected after 20 failures in a row, and gets 6.7 requests a second: that is
3 s, and the rest is for a busy machine."""


def happened(paths):
    """Return the seconds between the first request and each step of the scenario."""
    steps = [
        event for event in Events(paths.events_file).read() if event["kind"] == "scenario.step"
    ]
    begun = next(step["time"] for step in steps if step["subject"] == "load")
    return {step["message"]: step["time"] - begun for step in steps}


def test_requests_are_answered_elsewhere_and_none_is_lost(tmp_path, record_property):
    folder, paths = checkout(tmp_path / "checkout", "three-regions"), TwinPaths(tmp_path / "twin")
    try:
        output_of(folder, paths, "up", *STACK, "--scenario", "region-loss")
        steps = happened(paths)
        timeline = json.loads(json.dumps(recorded(paths, "three-regions", "region-loss")))
        output_of(folder, paths, "down", *STACK)
    finally:
        daemon.shut_down(paths)
    assert processes.running(paths) == {}
    kept(timeline, "region-loss")
    (file,) = tmp_path.rglob("requests.jsonl")
    requests = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(requests) == 20 * 140
    found = Counter(request["outcome"] for request in requests)
    assert found["lost"] == 0
    refused = [request["done"] for request in requests if request["outcome"] == "refused"]
    assert len(refused) <= 0.01 * len(requests)
    lost_at, back_at = steps[f"{LOST} is down"], steps[f"{LOST} is back"]
    assert [at for at in refused if at < lost_at - 1.0] == [], "a step is reported once it is done"
    assert [at for at in refused if lost_at + NOTICED_SECONDS < at < back_at] == []

    nearby = [each for each in requests if each["group"] == LOST and each["replica"]]
    before = {each["replica"] for each in nearby if each["done"] < lost_at - 1.0}
    assert len(before) == 1, "the nearest region answers"
    others = {each["replica"] for each in requests if each["group"] != LOST} - {""}
    (new,) = {each["replica"] for each in nearby} - before - others
    first = min(each["due"] for each in nearby if each["replica"] == new)
    assert first > back_at
    after = [each for each in nearby if each["due"] >= first]
    share = sum(each["replica"] == new for each in after) / len(after)
    assert share >= SHARE_AFTERWARDS
    assert [at for at in refused if at > first] == []
    rehearsal = rehearsed(previewed(folder / "stacks" / FILE)[1], "region-loss", timeline)
    shares = share_within(rehearsal, timeline["ready"], most=0)  # of one replica in each region
    assert min(shares.values()) >= 0.9, shares
    # a request in the lost region is refused on the twin, and lost with its replica there
    failed = sum(one.failed for one in rehearsal.outcomes.values())
    assert failed == pytest.approx(len(refused), rel=0.1, abs=3)
    answered, back = found["answered"], first - back_at
    record_property(
        "figures",
        f"{answered} answered, {len(refused)} refused; the region answers again {back:.0f} s after"
        f" it is back, {share:.0%} of its clients; replicas as in the rehearsal for"
        f" {min(shares.values()):.0%} of the time,"
        f" {failed} failed there",
    )
