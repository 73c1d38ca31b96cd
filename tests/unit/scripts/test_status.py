"""`gke-inference status`: replicas, what they cost together, and where to look."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from infra.plan import resolve
from infra.reading.load import parse, platform_of
from planner.amount import Amount, without_price
from scripts.operate import status
from scripts.shared import replica_status
from scripts.shared.clusters import Cluster
from scripts.shared.placements import Placement
from scripts.shared.schedule_status import scheduled_now
from scripts.terminal.console import CommandError
from tests.shipped_stacks import EXAMPLES
from twin.wire.kube import KubeError

ONE = Placement("llama", "main", "llama-0", "ready", "nvidia-l4 g2 spot", "a", Amount(1.25))


def test_a_node_without_a_price_is_in_no_sum_and_has_a_line(capsys) -> None:
    other = replace(ONE, pod="llama-1", usd_per_hour=without_price("nvidia-l4 g2 spot", "mars"))
    replica_status.print_replicas([ONE, other])
    said = capsys.readouterr().out
    assert "Nodes of replicas at list price: $1.25 per hour\n" in said
    assert "no published price here for nvidia-l4 g2 spot in mars: not in these totals" in said
    assert said.splitlines()[2].endswith("?")


def test_a_replica_that_waits_has_no_node_to_be_priced() -> None:
    waits = replace(ONE, state="waits for a node", rung="", usd_per_hour=None)
    assert replica_status.Total.of([ONE, waits]) == replica_status.Total(Amount(1.25))


def test_all_of_it_is_json() -> None:
    body = status.as_data("local", [ONE], "http://127.0.0.1:1", {"r--main": "http://x"})
    assert body["replicas"][0]["pod"] == "llama-0"
    assert body["replicas"][0]["usd_per_hour"] == 1.25
    assert body["replicas"][0]["missing"] == []
    assert (body["usd_per_hour"], body["missing"]) == (1.25, [])
    assert (body["gateway"], body["metrics"]) == ("http://127.0.0.1:1", {"r--main": "http://x"})


@pytest.mark.parametrize(
    ("status", "says"),
    [(0, "^cluster main does not answer: why$"), (403, "^cluster main refuses: why$")],
)
def test_a_cluster_that_does_not_show_its_pods_is_named(status, says) -> None:
    class Silent:
        def list(self, _: str) -> list[object]:
            raise KubeError(status, "", "why", {})

    silent: Any = Silent()
    with pytest.raises(CommandError, match=says):
        replica_status.find_replicas([Cluster("main", "r", silent)])


def test_a_schedule_has_a_line_with_its_next_change() -> None:
    platform = platform_of(EXAMPLES / "schedule" / "Pulumi.schedule.yaml")
    plan = resolve(parse(json.dumps(platform)))
    [found] = scheduled_now(plan, datetime(2026, 3, 30, 8, 0, tzinfo=UTC))  # Monday 10:00 in summer
    assert str(found) == (
        "Schedule llama-3-1-8b-gpu in europe-west4: at least 4 until Mon 18:00 "
        "(Europe/Amsterdam), then 1"
    )
    assert found.as_json()["until"] == "2026-03-30T18:00:00+02:00"


def test_a_schedule_that_never_changes_has_no_next_change() -> None:
    platform = platform_of(EXAMPLES / "schedule" / "Pulumi.schedule.yaml")
    (model,) = platform["models"].values()
    days = ["MO", "TU", "WE", "TH", "FR", "SA", "SU"]
    windows = [{"days": days, "start": "00:00", "end": "24:00", "min": 4}]
    model["replicas"]["schedule"]["windows"] = windows
    plan = resolve(parse(json.dumps(platform)))
    [found] = scheduled_now(plan, datetime(2026, 3, 30, 8, 0, tzinfo=UTC))
    assert str(found).endswith(": at least 4 at all times")
    assert found.as_json()["until"] is None
