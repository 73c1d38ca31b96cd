"""Schedules of the minimum of replicas: windows, clocks that change, and what follows them."""

from datetime import UTC, datetime
from typing import Any

import pulumi
import pytest

from gke_inference.catalogue.time_zones import offsets, zone_names
from gke_inference.intent.schedule import ReplicaSchedule
from gke_inference.observability.monitoring import Monitoring
from gke_inference.serving.autoscaling import Autoscaling
from tests.contract.components_k8s import crds

RULES = "kubernetes:monitoring.googleapis.com/v1:Rules"
HPA = "kubernetes:autoscaling/v2:HorizontalPodAutoscaler"
SERIES = "prometheus.googleapis.com|gke_inference:scheduled_replicas|gauge"
OFFICE: dict[str, Any] = {
    "days": ["MO", "TU", "WE", "TH", "FR"],
    "start": "08:00",
    "end": "20:00",
    "min": 6,
}
NIGHT: dict[str, Any] = {"days": ["SA"], "start": "22:00", "end": "06:00", "min": 3}


def schedule(*windows: dict[str, Any], zone: str = "Europe/Berlin") -> ReplicaSchedule:
    days = [{**each, "days": tuple(each["days"])} for each in windows or (OFFICE, NIGHT)]
    return ReplicaSchedule.model_validate({"time_zone": zone, "windows": tuple(days)}, strict=False)


@pytest.mark.parametrize(
    ("moment", "least"),
    [
        ("2026-01-05T06:59:59Z", 0),  # Monday 07:59:59 in winter
        ("2026-01-05T07:00:00Z", 6),
        ("2026-01-05T18:59:59Z", 6),
        ("2026-01-05T19:00:00Z", 0),
        ("2026-07-06T05:59:59Z", 0),  # summer is two hours before UTC
        ("2026-07-06T06:00:00Z", 6),
        ("2026-03-28T20:59:59Z", 0),  # the night before clocks change: Saturday 21:59:59
        ("2026-03-28T21:00:00Z", 3),
        ("2026-03-29T03:59:59Z", 3),  # Sunday 05:59:59 in summer, after 7 hours
        ("2026-03-29T04:00:00Z", 0),
        ("2026-10-25T04:59:59Z", 3),  # Sunday 05:59:59 in winter again, after 9 hours
        ("2026-10-25T05:00:00Z", 0),
    ],
)
def test_a_window_begins_and_ends_on_the_clock_of_its_zone(moment: str, least: int) -> None:
    assert schedule().least_at(datetime.fromisoformat(moment)) == least


def test_the_week_goes_around_and_neighbors_are_one_interval() -> None:
    days = {"days": ["SU"], "start": "20:00", "min": 2}
    found = schedule(
        {**days, "end": "24:00"}, {**days, "days": ["MO"], "start": "00:00", "end": "04:00"}
    )
    assert found.intervals == ((0, 240, 2), (9840, 10080, 2))
    assert schedule({**days, "end": "04:00"}).intervals == found.intervals
    assert schedule({**OFFICE, "start": "00:00", "end": "24:00"}).intervals == ((0, 7200, 6),)


def test_the_next_change_is_in_the_clock_of_the_zone() -> None:
    change = schedule().next_change(datetime(2026, 3, 28, 22, 30, tzinfo=UTC))
    assert change.isoformat() == "2026-03-29T06:00:00+02:00"
    always = schedule({**OFFICE, "days": ["MO", "TU", "WE", "TH", "FR", "SA", "SU"],
                       "start": "00:00", "end": "24:00"})  # fmt: skip
    now = datetime(2026, 3, 28, tzinfo=UTC)
    assert always.next_change(now) == now


def test_shares_are_those_of_a_week() -> None:
    assert schedule().shares == ((3, 8 / 168), (6, pytest.approx(60 / 168)))


def test_zones_are_those_of_the_package_and_know_their_changes() -> None:
    assert {"Europe/Berlin", "Asia/Kolkata", "UTC"} <= zone_names()
    assert [each for _, each in offsets("Asia/Kolkata")] == [330]
    winter, spring, autumn, *_ = offsets("Europe/Berlin")
    assert winter == (1767225600, 60)
    assert spring == (int(datetime(2026, 3, 29, 1, tzinfo=UTC).timestamp()), 120)
    assert autumn == (int(datetime(2026, 10, 25, 1, tzinfo=UTC).timestamp()), 60)


def monitoring(**more: Any) -> Any:
    return {
        "deployments": ["llama-8b"], "model": "llama-8b", "namespace": "serving",
        "selector": {"gke-inference/model": "llama-8b"}, **more,
    }  # fmt: skip


def test_the_minimum_is_recorded_for_each_target(recorder) -> None:
    given = monitoring(schedules={"llama-8b": schedule(zone="UTC")})
    recorder.run(lambda: Monitoring("monitoring", given).model)
    crds.check(recorder.one(RULES).inputs)
    [group] = recorder.one(RULES).inputs["spec"]["groups"]
    [rule] = group["rules"]
    assert rule["record"] == "gke_inference:scheduled_replicas"
    assert rule["labels"] == {"model": "llama-8b", "scale_target": "llama-8b"}
    minute = "(time() / 60 + 4320) % 10080"
    assert f"6 * ({minute} >= bool 480) * ({minute} < bool 1200)" in rule["expr"]


@pytest.mark.parametrize(
    ("schedules", "message"),
    [
        ({"other": schedule()}, "schedules.*must be one of llama-8b, got 'other'"),
        ({"llama-8b": schedule(OFFICE, OFFICE)}, r"windows\[1\].*must not overlap"),
    ],
)
def test_a_schedule_that_cannot_be_followed_is_refused(recorder, schedules, message) -> None:
    with pytest.raises((pulumi.InputPropertyError, pulumi.InputPropertiesError), match=message):
        recorder.run(lambda: Monitoring("monitoring", monitoring(schedules=schedules)).model)


def scaler(**more: Any) -> Any:
    return {
        "model": "llama-8b", "namespace": "serving", "target_name": "llama-8b-decode",
        "replicas": {"min": 1, "max": 12, "schedule": schedule(OFFICE)}, **more,
    }  # fmt: skip


def test_the_autoscaler_follows_its_own_series_of_its_cluster(recorder) -> None:
    given = scaler(cluster_location="us-east5", cluster_name="main")
    recorder.run(lambda: Autoscaling("scaling", given).hpa_name)
    spec = recorder.one(HPA).inputs["spec"]
    assert (spec["minReplicas"], spec["maxReplicas"]) == (1, 12)
    external = spec["metrics"][0]["external"]
    assert external["metric"] == {
        "name": SERIES,
        "selector": {
            "matchLabels": {
                "metric.labels.model": "llama-8b",
                "metric.labels.scale_target": "llama-8b-decode",
                "resource.labels.cluster": "main",
                "resource.labels.location": "us-east5",
                "resource.labels.namespace": "serving",
            }
        },
    }
    assert external["target"] == {"type": "AverageValue", "averageValue": "1"}


def test_a_target_with_a_schedule_names_its_cluster(recorder) -> None:
    with pytest.raises(pulumi.InputPropertyError, match=r"clusterLocation.*replicas.schedule"):
        recorder.run(lambda: Autoscaling("scaling", scaler()).hpa_name)
