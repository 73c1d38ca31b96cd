"""`gke-inference status`: replicas, what they cost together, and where to look."""

import json
from dataclasses import replace

import pytest

from planner.amount import Amount
from scripts.operate import status
from scripts.shared import replica_status
from scripts.shared.placements import Placement
from scripts.terminal.console import CommandError
from twin.wire.kube import KubeError

ONE = Placement("llama", "main", "llama-0", "ready", "nvidia-l4 g2 spot", "a", Amount(1.25))


def test_a_sum_without_a_price_is_at_least_what_is_known(capsys) -> None:
    replica_status.print_replicas([ONE, replace(ONE, pod="llama-1", usd_per_hour=None)])
    said = capsys.readouterr().out
    assert "at least $1.25 per hour; 1 without a price" in said
    assert said.splitlines()[2].endswith("?")


def test_a_replica_that_waits_has_no_node_to_be_priced() -> None:
    waits = replace(ONE, state="waits for a node", rung="", usd_per_hour=None)
    assert replica_status.Total.of([ONE, waits]) == replica_status.Total(Amount(1.25), 0)


def test_all_of_it_is_json() -> None:
    body = json.loads(status.as_json("local", [ONE], "http://127.0.0.1:1", {"r--main": "http://x"}))
    assert body["replicas"][0]["pod"] == "llama-0"
    assert body["replicas"][0]["usd_per_hour"] == 1.25
    assert body["replicas"][0]["is_lower_bound"] is False
    assert (body["usd_per_hour"], body["is_lower_bound"]) == (1.25, False)
    assert (body["gateway"], body["metrics"]) == ("http://127.0.0.1:1", {"r--main": "http://x"})


def test_a_cluster_that_does_not_answer_is_one_line(monkeypatch) -> None:
    def refuse(_: object) -> list[Placement]:
        raise KubeError(503, "", "no answer", {})

    monkeypatch.setattr(replica_status, "placements", refuse)
    with pytest.raises(CommandError, match=r"^a cluster of the twin does not answer: no answer$"):
        replica_status.find_replicas(None)  # type: ignore[arg-type]
