"""Cost of rungs in calendar mode: by their period, and whether used or not."""

import json
from typing import Any

import pytest

from gke_inference.catalogue.rungs import check_rung
from gke_inference.intent.replicas import ReplicaRange
from infra.estimate.stack_cost import StackCost, stack_cost
from infra.plan import resolve
from infra.reading.load import parse
from planner.amount import HOURS_PER_MONTH
from planner.choice.cost import bill
from planner.choice.served import Served
from scripts.plan.cost_tables import booking_lines
from tests.contract.infra.broken_stacks import edited

WEEK = {"start": "2027-01-11T08:00:00Z", "end": "2027-01-18T08:00:00Z"}
QUARTER = {"start": "2027-01-11T08:00:00Z", "end": "2027-04-11T08:00:00Z"}
TPU = {"accelerator": "tpu-v6e", "topology": "2x2"}
ON_DEMAND = {**TPU, "provisioning": "on-demand"}
SHARE = 168 / HOURS_PER_MONTH


def in_calendar(period: dict[str, str]) -> dict[str, Any]:
    return {
        **TPU,
        "provisioning": "calendar",
        "reservation": "launch-week",
        "reservation_period": period,
    }


@pytest.mark.parametrize(
    ("rungs", "each", "most"),
    [
        ([in_calendar(WEEK)], 7.56 * SHARE, 7.56 * SHARE),
        # the week in the reservation, the rest of the month on demand
        (
            [in_calendar(WEEK), ON_DEMAND],
            7.56 * SHARE + 10.80 * (1 - SHARE),
            10.80,
        ),
        ([in_calendar(QUARTER), ON_DEMAND], 7.56, 10.80),
    ],
)
def test_a_month_has_the_hours_of_the_period_and_the_next_rung_for_the_rest(
    rungs: list[dict[str, Any]], each: float, most: float
) -> None:
    checked = tuple(check_rung(rung) for rung in rungs)
    (line,) = bill([Served("m", "us-central1", checked, ReplicaRange(min=2, max=4))]).lines
    assert line.minimum.value == pytest.approx(2 * each)
    assert line.maximum.value == pytest.approx(4 * most)
    assert line.first is not None
    assert line.first.usd_per_hour.value == pytest.approx(7.56)


def launch(machines: int | None) -> StackCost:
    """Return the cost of `local` with its TPUs in calendar mode, for 1 to 4 replicas."""
    rung = ["capacity", "interactive", "rungs", 0]
    edits: list[dict[str, Any]] = [
        {"at": [*rung, "provisioning"], "value": "calendar"},
        {"at": [*rung, "allow_unlisted_zones"], "value": True},
        {"at": [*rung, "reservation_period"], "value": WEEK},
    ]
    if machines is not None:
        edits.append({"at": [*rung, "reservation_machines"], "value": machines})
    return stack_cost(resolve(parse(json.dumps(edited("local", edits)))))


def test_reserved_machines_that_no_replica_uses_are_paid_for() -> None:
    found = launch(3)
    idle = [part for part in found.parts if part.what.startswith("reservation")]
    assert [(part.what, part.group) for part in idle] == [
        ("reservation v6e-local, replicas that nobody uses", "accelerators")
    ]
    amounts = [idle[0].minimum.value, idle[0].expected.value, idle[0].maximum.value]
    # 1 replica at least, 2 as expected, and 4 at most, which take all three machines
    assert amounts == pytest.approx([2 * 7.56 * SHARE, 7.56 * SHARE, 0])
    accelerators = found.by_group["accelerators"]
    assert accelerators.minimum.value == pytest.approx(
        found.bill.total("minimum").value + amounts[0]
    )
    assert list(booking_lines(found)) == [
        "reservation v6e-local in us-central1: 3 x ct6e-standard-4t from 2027-01-11 to 2027-01-18"
        " (168 h), $3,810.24 whether used or not"
    ]


def test_a_reservation_that_exists_costs_what_its_replicas_use() -> None:
    found = launch(None)
    assert not [part for part in found.parts if part.group == "accelerators"]
    assert list(booking_lines(found)) == []
