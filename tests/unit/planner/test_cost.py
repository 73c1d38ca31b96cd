"""Cost of a stack's models."""

from datetime import date

import pytest

from gke_inference.catalogue.rungs import Rung, check_rung
from gke_inference.intent.replicas import ReplicaRange
from infra.estimate.cold_starts import starts
from infra.estimate.stack_cost import served
from infra.plan import resolve
from infra.reading.load import parse, platform_of
from infra.reading.load import read as read_stack
from planner.amount import Amount, Missing, total
from planner.choice.cost import FIELDS, Bill, Line, bill, freshness
from planner.choice.served import Served
from twin.host.paths import REPOSITORY


def rung(provisioning: str, accelerator: str = "nvidia-l4") -> Rung:
    return check_rung({"accelerator": accelerator, "count": 1, "provisioning": provisioning})


def one(*rungs: Rung, minimum: int = 1, maximum: int = 5) -> Served:
    return Served("chat", "us-central1", rungs, ReplicaRange(min=minimum, max=maximum))


def test_the_least_is_priced_on_the_first_rung_and_the_most_on_the_dearest():
    spot, on_demand = bill([one(rung("spot"))]), bill([one(rung("on-demand"))])
    both = bill([one(rung("spot"), rung("on-demand"))])
    assert both.total("minimum") == spot.total("minimum")
    most = on_demand.total("maximum")
    assert most.value == pytest.approx(5 * 1.00041)
    assert both.total("maximum") == most


def test_what_is_expected_lies_between_and_follows_the_share():
    low, high = bill([one(rung("on-demand"))], 0.1), bill([one(rung("on-demand"))], 1.0)
    assert low.total("expected") == low.total("minimum")
    assert high.total("expected") == high.total("maximum")
    with pytest.raises(ValueError, match="mean_share: must be above 0 and at most 1, got 0"):
        bill([], 0)


def test_a_rung_without_a_price_is_missing_from_the_sum_once():
    found = bill(
        [Served("chat", "mars-north1", (rung("on-demand"),), ReplicaRange(min=1, max=2))] * 2
    )
    lacks = (Missing("nvidia-l4 x1 on-demand", "mars-north1"),)
    assert [found.total(field) for field in FIELDS] == [Amount(0.0, lacks)] * 3
    assert found.missing == lacks


def test_no_replica_of_a_rung_without_a_price_costs_nothing_and_misses_nothing():
    found = bill([Served("chat", "mars-north1", (rung("on-demand"),), ReplicaRange(min=0, max=2))])
    assert found.total("minimum") == Amount(0.0)


def missing(found: Bill | Line) -> dict[str, list[str]]:
    """Return what each figure misses."""
    amounts = {f: found.total(f) if isinstance(found, Bill) else getattr(found, f) for f in FIELDS}
    return {field: [str(one) for one in amount.missing] for field, amount in amounts.items()}


def test_each_figure_misses_what_its_own_rungs_lack():
    flex = check_rung({"accelerator": "nvidia-h100-80gb", "count": 2, "provisioning": "flex-start"})
    host = ["the host of nvidia-h100-80gb x2 flex-start in us-central1"]
    behind = bill([one(rung("on-demand"), flex)])
    assert missing(behind) == missing(behind.lines[0])
    assert missing(behind) == {"minimum": [], "expected": [], "maximum": host}
    assert missing(bill([one(flex, rung("on-demand"))])) == dict.fromkeys(FIELDS, host)
    assert missing(bill([one(rung("on-demand"))])) == {key: [] for key in FIELDS}


def test_a_figure_on_a_rung_behind_one_without_a_price_misses_that_one():
    found = bill(served(resolve(read_stack("prod"))))
    (line,) = (
        line
        for line in found.lines
        if (line.served.model, line.served.region) == ("llama-3.3-70b", "asia-northeast1")
    )
    assert line.unpriced == ("nvidia-h100-80gb x8 on-demand",)
    lacks = "nvidia-h100-80gb x8 on-demand in asia-northeast1"
    for part in (found, found.by("model")["llama-3.3-70b"], found.by("region")["asia-northeast1"]):
        assert all(lacks in names for names in missing(part).values())
    assert missing(line) == {key: [lacks] for key in FIELDS}


def test_sums_by_anything_are_the_total():
    found = bill(served(resolve(read_stack("prod"))))
    for key in ("model", "region", "provisioning"):
        for field in ("minimum", "expected", "maximum"):
            sums = total(each.total(field) for each in found.by(key).values())
            assert sums.value == pytest.approx(found.total(field).value)
            assert sums.missing == found.total(field).missing
    least, expected, most = (found.total(field).value for field in FIELDS)
    assert least < expected < most


@pytest.mark.parametrize(
    ("day", "said"), [("2026-11-01", "fresh"), ("2026-07-01", "stale"), ("2026", "undated")]
)
def test_a_price_says_how_old_it_is(day: str, said: str):
    assert freshness(day, date(2026, 11, 21)) == said


def test_a_standby_of_the_other_kind_is_counted_beside_the_paired_model():
    roles = [(line.model, line.role) for line in served(resolve(read_stack("prod")))]
    assert ("llama-3.1-8b", "standby") in roles


def test_a_start_beyond_the_promise_of_the_stack_is_late():
    import json  # noqa: PLC0415 - of this test alone

    stack = platform_of(REPOSITORY / "stacks" / "Pulumi.prod.yaml")
    stack["models"]["llama-3.1-8b"]["slo"]["cold_start_s"] = 300
    found = [
        one for one in starts(resolve(parse(json.dumps(stack)))) if one.model == "llama-3.1-8b"
    ]
    assert {one.is_late for one in found if "tpu" in one.rung} == {True}
    assert {one.is_late for one in found if "spot" in one.rung} == {False}
