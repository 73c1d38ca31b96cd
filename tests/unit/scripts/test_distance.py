"""Which region answers clients of a place, by published round trips."""

import json

import pytest

from gke_inference.catalogue.round_trips import round_trips
from infra.estimate.distances import Answer, between, distances
from infra.plan import resolve
from infra.reading.load import parse, platform_of
from scripts.plan import distance as command
from scripts.terminal.output import Output
from tests.shipped_stacks import EXAMPLES
from twin.world.regions import regions


def test_the_table_has_regions_of_google_and_a_round_trip_for_each_pair() -> None:
    table = round_trips()
    assert set(table.places) <= set(regions())
    assert len(table.milliseconds) == len(table.places) * (len(table.places) - 1)
    # that the directions differ is congestion and routing, not another place
    assert all(
        abs(trip - table.milliseconds[region, client]) <= 12
        for (client, region), trip in table.milliseconds.items()
    )


def test_clients_get_the_nearest_region_and_the_next_after_its_loss() -> None:
    found = between(["us-central1", "europe-west4", "asia-northeast1"])
    by_client = {each.client: (each.first, each.then) for each in found.by_client}
    assert by_client["europe-west2"] == (Answer("europe-west4", 11), Answer("us-central1", 108))
    assert by_client["us-central1"] == (Answer("us-central1", 0), Answer("europe-west4", 110))
    assert by_client["australia-southeast1"][0] == Answer("asia-northeast1", 104)
    assert found.unknown == []


def test_a_region_without_published_round_trips_is_named_and_not_compared() -> None:
    found = between(["us-east5", "us-central1"])
    assert found.unknown == ["us-east5"]
    assert {each.first.region for each in found.by_client} == {"us-central1"}
    assert {each.then for each in found.by_client} == {None}


def test_a_drained_region_answers_nobody() -> None:
    content = platform_of(EXAMPLES / "three-regions" / "Pulumi.three-regions.yaml")
    content["gateway"]["drain"] = ["europe-west4"]
    found = distances(resolve(parse(json.dumps(content))))
    assert {each.first.region for each in found.by_client} == {"us-central1", "asia-northeast1"}


def test_the_command_prints_the_source_and_its_date(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    content = platform_of(EXAMPLES / "three-regions" / "Pulumi.three-regions.yaml")
    plan = resolve(parse(json.dumps(content)))
    monkeypatch.setattr(command, "plan_of", lambda _: plan)
    command.distance("three-regions", Output.JSON)
    shown = json.loads(capsys.readouterr().out)
    assert shown["taken"] == "2026-07-30"
    london = next(each for each in shown["clients"] if each["client"] == "europe-west2")
    assert london["first"] == {"region": "europe-west4", "milliseconds": 11}
