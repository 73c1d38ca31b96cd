"""Reservations and the availability of unreserved machines."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from infra.plan import resolve
from infra.reading.load import parse
from scripts.prerequisites.calendar_mode import calendar_mode
from scripts.prerequisites.finding import Project, State
from scripts.prerequisites.obtainability import obtainability
from scripts.prerequisites.reservations import reservations
from tests.contract.infra.broken_stacks import edited
from tests.unit.bootstrap.fake_google import refused
from tests.unit.prerequisites.ready_project import COMPUTE, machines, tpus

TPU = "v6e-prod in us-central1-b"
GPU = "h200-prod in us-central1-b"


def url(name: str, owner: str = "acme-inference-prod") -> str:
    reservation, _, zone = name.partition(" in ")
    return f"{COMPUTE}/projects/{owner}/zones/{zone}/reservations/{reservation}"


def found(project, name: str):
    return next(each for each in reservations(project) if each.name == name)


def test_every_reservation_is_looked_up_in_each_of_its_zones(project):
    names = [each.name for each in reservations(project)]
    assert names == [
        "v6e-prod in us-central1-b",
        "v6e-8-prod in us-central1-b",
        "h200-prod in us-central1-b",
        "v6e-prod in europe-west4-a",
        "v6e-8-prod in europe-west4-a",
        "h200-prod in europe-west4-a",
        "v6e-prod in asia-northeast1-b",
        "v6e-8-prod in asia-northeast1-b",
    ]


def test_a_reservation_that_fits_tells_what_is_free_and_what_is_asked(google, project):
    google.resources[url(TPU)] |= tpus(chips=64, used=8)
    one = found(project, TPU)
    assert one.state is State.MET
    assert one.says == (
        "16 x ct6e-standard-4t, 14 free; the stack starts with 2 and may grow to 12"
    )


def test_a_reservation_of_machines_counts_machines(google, project):
    google.resources[url(GPU)] |= machines("a3-ultragpu-8g", count=4, used=4)
    one = found(project, GPU)
    assert one.state is State.MET
    assert one.says == (
        "4 x a3-ultragpu-8g, 0 free; the stack starts with 1 and may grow to 3;"
        " machines in use must belong to this stack"
    )


def test_a_reservation_of_gpus_that_is_not_there_has_the_command_that_makes_it(google, project):
    del google.resources[url(GPU)]
    one = found(project, GPU)
    assert one.state is State.MISSING
    assert one.command == (
        "gcloud compute reservations create h200-prod --project=acme-inference-prod"
        " --zone=us-central1-b --machine-type=a3-ultragpu-8g --vm-count=3"
        " --require-specific-reservation"
    )


def test_a_reservation_of_tpus_is_asked_for_in_calendar_mode(google, project):
    del google.resources[url(TPU)]
    one = found(project, TPU)
    assert one.state is State.MISSING
    assert one.command.startswith("gcloud compute future-reservations create v6e-prod")
    assert "--tpu-version=V6E --chip-count=48" in one.command


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (tpus(family="CT5LP"), "holds CT5LP; must hold CT6E"),
        (tpus(chips=4), "1 x ct6e-standard-4t, 1 free; the stack starts with 2"),
        ({"status": "CREATING"}, "is CREATING; must be READY"),
        ({"aggregateReservation": None}, "does not show its machines"),
    ],
)
def test_a_reservation_that_does_not_fit_is_not_met(google, project, change, says):
    google.resources[url(TPU)] |= change
    one = found(project, TPU)
    assert one.state in {State.MISSING, State.UNSEEN}
    assert says in one.says


def test_machines_of_another_type_are_no_reservation_of_the_rung(google, project):
    google.resources[url(GPU)] |= machines("a3-highgpu-8g")
    one = found(project, GPU)
    assert one.says.startswith("holds a3-highgpu-8g; must hold a3-ultragpu-8g")
    assert one.state is State.MISSING


def test_a_reservation_that_nobody_shows_cannot_be_seen(google, project):
    google.refusals[url(GPU)] = refused(403, "denied")
    assert found(project, GPU).state is State.UNSEEN


@pytest.mark.parametrize(
    ("settings", "state"),
    [
        ({}, State.MISSING),
        ({"shareType": "SPECIFIC_PROJECTS", "projectMap": {"other": {}}}, State.MISSING),
        (
            {"shareType": "SPECIFIC_PROJECTS", "projectMap": {"acme-inference-prod": {}}},
            State.MET,
        ),
        ({"shareType": "ORGANIZATION"}, State.MET),
    ],
)
def test_a_reservation_of_another_project_must_be_shared(google, project, settings, state):
    region = google.plan.regions["us-central1"]
    heavy = region.capacity["heavy"]
    rungs = {**heavy.rungs, 0: replace(heavy.rungs[0], reservation_project="acme-capacity")}
    capacity = {**region.capacity, "heavy": replace(heavy, rungs=rungs)}
    plan = replace(google.plan, regions={"us-central1": replace(region, capacity=capacity)})
    body = google.resources.pop(url(GPU)) | {"shareSettings": settings}
    google.resources[url(GPU, "acme-capacity")] = body
    one = found(replace(project, plan=plan), f"{GPU} of acme-capacity")
    assert one.state is state
    if state is State.MISSING:
        assert one.command.endswith("--add-share-with=acme-inference-prod")


def test_odds_are_asked_for_what_is_neither_reserved_nor_on_demand(google, project):
    names = [each.name for each in obtainability(project) if "us-central1" in each.name]
    assert names == [
        "a3-highgpu-1g flex-start in us-central1",
        "a3-highgpu-1g spot in us-central1",
        "a3-highgpu-2g flex-start in us-central1",
        "a3-highgpu-2g spot in us-central1",
        "a3-highgpu-8g spot in us-central1",
        "g2-standard-12 spot in us-central1",
    ]
    assert google.asked_odds[names.index("g2-standard-12 spot in us-central1")] == {
        "distributionPolicy": {
            "targetShape": "ANY",
            "zones": [
                {"zone": f"projects/acme-inference-prod/zones/us-central1-{each}"} for each in "abc"
            ],
        },
        "instanceFlexibilityPolicy": {
            "instanceSelections": {"rung": {"machineTypes": ["g2-standard-12"]}}
        },
        "instanceProperties": {"scheduling": {"provisioningModel": "SPOT"}},
        "size": 1,
    }


@pytest.mark.parametrize(
    ("odds", "state"), [(0.9, State.MET), (0.69, State.UNLIKELY), (None, State.UNSEEN)]
)
def test_odds_are_advice_and_fail_nothing(google, project, odds, state):
    google.odds["a3-highgpu-1g"] = odds
    one = next(iter(obtainability(project)))
    assert (one.state, one.is_required, one.is_problem) == (state, False, False)


def test_nobody_tells_the_odds_of_a_tpu(project):
    (one, *_) = [each for each in obtainability(project) if each.name.startswith("ct6e")]
    assert (one.state, one.is_problem) == (State.UNSEEN, False)


def booked(project: Project, capacity: str) -> Project:
    """Return it with the first rung of a capacity in calendar mode."""
    rung = ["capacity", capacity, "rungs", 0]
    edits = [
        {"at": [*rung, "provisioning"], "value": "calendar"},
        {"at": [*rung, "allow_unlisted_zones"], "value": True},
    ]
    platform = parse(json.dumps(edited("prod", edits)))
    return replace(project, plan=resolve(platform))


def test_the_next_week_of_a_rung_in_calendar_mode_is_asked_for_once(google, project):
    assert list(calendar_mode(project)) == []
    before = datetime.now(UTC).replace(microsecond=0)
    found = list(calendar_mode(booked(project, "interactive")))
    regions = ("us-central1", "europe-west4", "asia-northeast1")
    assert [each.name for each in found] == [f"12 x ct6e-standard-4t in {name}" for name in regions]
    one = found[0]
    assert one.says == "free in us-central1-b for 7 days from 2026-12-01T00:00:00Z"
    assert (one.state, one.is_required) == (State.MET, False)
    spec = google.asked_weeks[0]["futureResourcesSpecs"]["rung"]
    assert spec["targetResources"]["aggregateResources"] == {
        "acceleratorCount": 48,
        "vmFamily": "VM_FAMILY_CLOUD_TPU_LITE_POD_SLICE_CT6E",
        "workloadType": "SERVING",
    }
    assert spec["locationPolicy"]["locations"] == {"zones/us-central1-b": {"preference": "ALLOW"}}
    times = spec["timeRangeSpec"]
    assert times["minDuration"] == times["maxDuration"] == "604800s"
    begins, ends = (
        datetime.fromisoformat(times[each])
        for each in ("startTimeNotEarlierThan", "startTimeNotLaterThan")
    )
    assert begins >= before
    assert ends - begins == timedelta(days=28)


def test_gpus_in_calendar_mode_are_asked_for_by_machine(google, project):
    one = next(calendar_mode(booked(project, "heavy")))
    spec = google.asked_weeks[0]["futureResourcesSpecs"]["rung"]
    count = int(one.name.split(" x ")[0])
    assert spec["targetResources"] == {
        "specificSkuResources": {"instanceCount": count, "machineType": "a3-ultragpu-8g"}
    }


def test_a_week_that_nobody_can_have_is_advice_and_fails_nothing(google, project):
    google.week = {"otherLocations": {"zones/us-central1-b": {"status": "NO_CAPACITY"}}}
    one = next(iter(calendar_mode(booked(project, "interactive"))))
    assert one.says == "no 7 days that start within 28 days are free"
    assert (one.state, one.is_problem) == (State.UNLIKELY, False)
