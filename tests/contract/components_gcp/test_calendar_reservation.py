"""Requests of reservations in calendar mode."""

from typing import Any

import pulumi
import pytest

from gke_inference import CalendarReservation
from twin.providers.gcp.checks.validate import validate_inputs

REQUEST = "gcp:compute/futureReservation:FutureReservation"
WEEK = {"start": "2027-01-11T08:00:00Z", "end": "2027-01-18T08:00:00Z"}
V6E = {
    "accelerator": "tpu-v6e",
    "topology": "2x4",
    "provisioning": "calendar",
    "reservation": "launch-week",
    "reservation_zones": ["us-east5-b"],
    "reservation_period": WEEK,
    "reservation_machines": 3,
}
H200 = {**V6E, "accelerator": "nvidia-h200-141gb", "count": 8, "reservation_zones": ["us-east4-b"]}
del H200["topology"]


def request(recorder, rung: dict[str, Any]) -> dict[str, Any]:
    args: Any = {"project": "acme", "rung": rung}
    recorder.run(lambda: CalendarReservation("it", args).reservation_name)
    inputs = recorder.one(REQUEST).inputs
    assert validate_inputs(REQUEST, inputs) == []
    return inputs


def test_tpus_are_requested_by_family_and_chips_and_never_deleted(recorder):
    assert request(recorder, V6E) == {
        "aggregateReservation": {
            "reservedResources": [{"accelerator": {"acceleratorCount": 24}}],
            "vmFamily": "VM_FAMILY_CLOUD_TPU_LITE_POD_SLICE_CT6E",
            "workloadType": "SERVING",
        },
        "autoDeleteAutoCreatedReservations": True,
        "deletionPolicy": "ABANDON",
        "description": "3 ct6e-standard-8t for tpu-v6e 2x4 calendar.",
        "name": "launch-week",
        "planningStatus": "SUBMITTED",
        "project": "acme",
        "reservationMode": "CALENDAR",
        "reservationName": "launch-week",
        "specificReservationRequired": True,
        "timeWindow": {"endTime": "2027-01-18T08:00:00Z", "startTime": "2027-01-11T08:00:00Z"},
        "zone": "us-east5-b",
    }


def test_gpus_are_requested_by_machine_and_close_to_each_other(recorder):
    inputs = request(recorder, {**H200, "allow_unlisted_zones": True})
    assert inputs["specificSkuProperties"] == {
        "instanceProperties": {"machineType": "a3-ultragpu-8g"},
        "totalCount": "3",
    }
    assert inputs["deploymentType"] == "DENSE"
    assert "aggregateReservation" not in inputs


def test_a_reservation_that_exists_is_not_requested(recorder):
    existing = {key: value for key, value in V6E.items() if key != "reservation_machines"}
    with pytest.raises(pulumi.InputPropertyError, match="must be the number of VMs to reserve"):
        request(recorder, existing)
