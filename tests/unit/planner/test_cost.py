"""What models of a stack cost."""

from dataclasses import replace
from datetime import date

import pytest

from gke_inference.catalogue.prices import Price
from gke_inference.catalogue.rungs import Rung, check_rung
from infra.cost.costing import served, starts
from infra.plan import resolve
from infra.reading.load import parse, platform_of
from infra.reading.load import read as read_stack
from planner.amount import UNKNOWN, total
from planner.choice.cost import FIELDS, Bill, Line, Served, bill, freshness
from twin.host.paths import REPOSITORY


def rung(provisioning: str, accelerator: str = "nvidia-l4") -> Rung:
    return check_rung({"accelerator": accelerator, "count": 1, "provisioning": provisioning})


def one(*rungs: Rung, minimum: int = 1, maximum: int = 5) -> Served:
    return Served("chat", "us-central1", rungs, minimum, maximum)


def test_the_least_is_priced_on_the_first_rung_and_the_most_on_the_dearest():
    spot, on_demand = bill([one(rung("spot"))]), bill([one(rung("on-demand"))])
    both = bill([one(rung("spot"), rung("on-demand"))])
    assert both.total("minimum") == spot.total("minimum")
    most = on_demand.total("maximum")
    assert most.value == pytest.approx(5 * 1.00041)
    assert not most.at_least
    assert both.total("maximum") == replace(most, at_least=True)  # the host on spot has no price


def test_what_is_expected_lies_between_and_follows_the_share():
    low, high = bill([one(rung("on-demand"))], 0.1), bill([one(rung("on-demand"))], 1.0)
    assert low.total("expected") == low.total("minimum")
    assert high.total("expected") == high.total("maximum")
    with pytest.raises(ValueError, match="mean_share: must be above 0 to 1, got 0"):
        bill([], 0)


def test_a_rung_without_a_price_is_named_and_makes_the_sum_a_lower_bound():
    found = bill([Served("chat", "mars-north1", (rung("on-demand"),), 1, 2)])
    assert found.lines[0].minimum is None
    assert [found.total(field) for field in FIELDS] == [UNKNOWN] * 3
    assert found.unpriced == ["nvidia-l4 x1 on-demand in mars-north1"]


def bounds(found: Bill | Line) -> set[str]:
    """Return the figures that are known from below only."""
    amounts = {f: found.total(f) if isinstance(found, Bill) else getattr(found, f) for f in FIELDS}
    return {field for field, amount in amounts.items() if amount.at_least}


def test_each_figure_says_by_itself_whether_a_price_of_its_rungs_is_missing():
    part = bill([one(rung("on-demand"), rung("spot"))])  # the host of an L4 on spot has no price
    assert bounds(part) == bounds(part.lines[0]) == {"maximum"}
    assert bounds(bill([one(rung("spot"), rung("on-demand"))])) == set(FIELDS)
    assert bounds(bill([one(rung("on-demand"))])) == set()


def test_a_figure_on_a_rung_behind_one_without_a_price_is_a_lower_bound_and_so_are_its_sums():
    found = bill(served(resolve(read_stack("prod"))))
    (line,) = (
        line
        for line in found.lines
        if (line.served.model, line.served.region) == ("llama-3.3-70b", "asia-southeast1")
    )
    assert line.unpriced == ("nvidia-h100-80gb x8 on-demand",)
    assert "nvidia-h100-80gb x8 on-demand in asia-southeast1" in found.lacking
    assert bounds(line) == bounds(found) == set(FIELDS)
    assert bounds(found.by("model")["llama-3.3-70b"]) == set(FIELDS)
    assert bounds(found.by("region")["asia-southeast1"]) == set(FIELDS)
    assert bounds(found.by("model")["qwen3-32b"]) == {"maximum"}


def test_sums_by_anything_are_the_total():
    found = bill(served(resolve(read_stack("prod"))))
    for key in ("model", "region", "provisioning"):
        for field in ("minimum", "expected", "maximum"):
            sums = total(each.total(field) for each in found.by(key).values())
            assert sums.value == pytest.approx(found.total(field).value)
            assert sums.at_least
    least, expected, most = (found.total(field).value for field in FIELDS)
    assert least < expected < most


@pytest.mark.parametrize(
    ("day", "said"), [("2026-11-01", "fresh"), ("2026-07-01", "stale"), ("2026", "undated")]
)
def test_a_price_says_how_old_it_is(day: str, said: str):
    assert freshness(Price(1.0, "a list", day, "secondary"), date(2026, 11, 21)) == said


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
    assert {one.is_late for one in found if "nvidia-l4" in one.rung} == {False}
