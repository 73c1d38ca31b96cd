"""Reservations in calendar mode that stacks request (rule reservation.calendar)."""

from datetime import UTC, datetime
from typing import Any

import pytest

from twin.tests.unit.gcp.conftest import PROJECT, Cloud, Refused
from twin.world.capacity import Clock, World, claim_for
from twin.world.capacity_ledger import Ledger
from twin.world.future_reservations import REQUEST
from twin.world.machines import machine

WEEK = {"startTime": "2027-01-11T08:00:00Z", "endTime": "2027-01-18T08:00:00Z"}
TPUS: dict[str, Any] = {
    "aggregateReservation": {
        "reservedResources": [{"accelerator": {"acceleratorCount": 4}}],
        "vmFamily": "VM_FAMILY_CLOUD_TPU_LITE_POD_SLICE_CT6E",
        "workloadType": "SERVING",
    },
    "autoDeleteAutoCreatedReservations": True,
    "deletionPolicy": "ABANDON",
    "name": "week",
    "planningStatus": "SUBMITTED",
    "reservationMode": "CALENDAR",
    "reservationName": "week",
    "specificReservationRequired": True,
    "timeWindow": WEEK,
    "zone": "us-east5-b",
}
GPUS: dict[str, Any] = {
    **{key: value for key, value in TPUS.items() if key != "aggregateReservation"},
    "specificSkuProperties": {
        "instanceProperties": {"machineType": "a3-ultragpu-8g"},
        "totalCount": "1",
    },
}


def it_is(cloud: Cloud, date: str) -> None:
    clock = Clock(date=datetime.fromisoformat(date).replace(tzinfo=UTC))
    World(default="none", clock=clock).save(cloud.paths.capacity_file)


def outcomes(cloud: Cloud, kind: str, count: int = 1) -> str:
    """Return how a request of nodes in the reservation ends."""
    folder = cloud.paths.clusters / "c"
    folder.mkdir(parents=True, exist_ok=True)
    claims = [
        claim_for(
            machine(kind),
            node=f"node-{at}",
            zone="us-east5-b",
            provisioning="reservation",
            reservation="week",
        )
        for at in range(count)
    ]
    ledger = Ledger(cloud.paths, folder, PROJECT, "autoscaler")
    outcome = ledger.acquire(claims).outcome
    for each in claims:
        ledger.release(each.node)
    return outcome


@pytest.mark.parametrize(
    ("request_", "kind"), [(TPUS, "ct6e-standard-4t"), (GPUS, "a3-ultragpu-8g")]
)
def test_a_request_gives_its_machines_from_its_start_to_its_end(
    cloud: Cloud, request_: dict[str, Any], kind: str
) -> None:
    it_is(cloud, "2027-01-05T00:00:00")
    cloud.create(REQUEST, "week", request_)
    assert outcomes(cloud, kind) == "no-reservation"  # it is there, and empty
    it_is(cloud, "2027-01-11T08:00:00")
    assert outcomes(cloud, kind) == "granted"
    assert outcomes(cloud, kind, count=2) == "no-reservation"
    it_is(cloud, "2027-01-18T08:00:00")
    assert outcomes(cloud, kind) == "not-found"


@pytest.mark.parametrize(
    ("request_", "date", "why"),
    [
        (TPUS, "2027-01-12T00:00:00", "the start 2027-01-11T08:00:00Z is in the past"),
        (TPUS, "2027-01-11T03:00:00", "is less than 6 hours ahead"),
        (GPUS, "2027-01-08T00:00:00", "is less than 87 hours ahead"),
        (
            {**TPUS, "timeWindow": {**WEEK, "endTime": "2027-04-12T08:00:00Z"}},
            "2027-01-05T00:00:00",
            "the duration must be 1 to 90 days, got 91",
        ),
    ],
)
def test_a_request_that_google_would_refuse_is_refused(
    cloud: Cloud, request_: dict[str, Any], date: str, why: str
) -> None:
    it_is(cloud, date)
    with pytest.raises(Refused, match=why):
        cloud.create(REQUEST, "week", request_)


def test_a_request_is_neither_changed_nor_deleted(cloud: Cloud) -> None:
    it_is(cloud, "2027-01-05T00:00:00")
    made = cloud.create(REQUEST, "week", TPUS)
    longer = {**TPUS, "timeWindow": {**WEEK, "endTime": "2027-01-19T08:00:00Z"}}
    with pytest.raises(Refused, match=r"cannot be modified: \[timeWindow\.endTime\]"):
        cloud.update(made, longer)
    cloud.delete(made)
    assert [record.name for record in cloud.world.store.find(REQUEST)] == ["week"]
