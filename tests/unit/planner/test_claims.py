"""Published claims, and what this project has for each."""

from dataclasses import replace

import pytest

from planner.fit.tables import table
from planner.unit_cost.claims import Claim, Figure, claims
from planner.unit_cost.routing_ratios import (
    BASELINE,
    DEFAULTS,
    ratio,
    results_of,
    tails_over_seeds,
)
from twin.host.paths import REPOSITORY

PAGE = (REPOSITORY / "docs" / "routing-results.md").read_text()
ALL = {one.name: one for one in claims(PAGE)}


def held(name: str) -> list[tuple[float, str]]:
    """Return the figures of a claim with three digits, each with its verdict."""
    one = ALL[name]
    return [(float(f"{each.value:.3g}"), one.verdict(each)) for each in one.figures]


@pytest.mark.parametrize("name", ALL)
def test_a_claim_says_who_where_when_on_what_condition_and_what_would_settle_it(name: str):
    one = ALL[name]
    for text in (one.title, one.claimed, one.by, one.source, one.requires, one.command):
        assert text.strip() == text != ""
    assert one.date[:4].isdigit()
    assert one.confidence in {"read", "known"}
    assert one.settles or name == "trillium-peak"
    assert one.figures or one.note


@pytest.mark.parametrize("name", ALL)
def test_a_figure_is_in_its_range(name: str):
    for each in ALL[name].figures:
        assert each.low <= each.value <= each.high


def test_every_claim_of_the_data_is_computed_once_in_its_order():
    assert list(ALL) == [row["name"] for row in table("claims")["claims"]]


def test_a_thousand_images_cost_22_cents_on_spot_and_almost_with_three_years():
    assert held("images-cents") == [(0.248, "partly"), (0.111, "yes"), (0.552, "no")]


def test_an_a100_is_three_times_as_expensive_for_flux_but_not_three_times_as_slow():
    assert held("images-a100")[:2] == [(4.31, "yes"), (2.71, "no")]


def test_half_a_million_images_a_day_is_a_number_of_chips():
    assert held("images-a-day") == [(7.0, ""), (46.0, "")]


def test_an_image_is_ready_29_times_faster_but_a_model_server_does_not_start_so():
    assert held("boot-disk") == [(1.57, "no"), (69.0, "yes")]


def test_a_faster_node_leaves_the_rest_of_a_start():
    assert held("container-compute") == [(1.91, "no"), (1.71, "no")]


def test_trillium_has_the_compute_that_is_claimed_and_less_of_it_reaches_text():
    assert held("trillium-peak") == [(4.66, "yes")]
    assert held("trillium-inference") == [(3.51, "yes"), (1.78, "no"), (0.793, "no")]


def test_a_price_that_comes_from_the_claim_does_not_confirm_it():
    assert held("dws-flex") == [(50.0, "not independent")]
    assert held("dws-calendar") == [(30.0, "not independent")]


def test_the_gateway_gains_over_round_robin_and_not_over_the_defaults_of_the_picker():
    assert held("gateway-latency") == [(99.8, "yes"), (4.66, "no")]
    assert held("gateway-throughput") == [(139.0, "yes"), (0.294, "partly")]
    assert held("gateway-cost") == [(58.1, "yes"), (0.325, "partly")]
    assert held("lora") == [(108.0, "yes"), (103.0, "yes")]


def test_the_ratios_are_those_of_the_bounds_on_the_same_page():
    results = results_of(PAGE)
    assert ratio(results, "shared_prefix", "tokens_per_second", BASELINE, 20) == pytest.approx(
        2.39, abs=0.005
    )
    assert ratio(results, "shared_prefix", "ttft_p99_ms", BASELINE, 20) == pytest.approx(
        0.0046, abs=0.0001
    )  # the bound also has further seeds at some rates
    assert ratio(results, "lora", "tokens_per_second", BASELINE, 24) == pytest.approx(
        2.17, abs=0.005
    )
    assert ratio(results, "lora", "tokens_per_second", DEFAULTS, 24) == pytest.approx(
        2.13, abs=0.005
    )
    assert tails_over_seeds(PAGE) == (1.01, 1.01, 1.04, 0.967, 1.03)


def test_a_page_without_results_is_refused():
    with pytest.raises(ValueError, match="must have tables of workloads, got none"):
        claims("# Routing results\n")


@pytest.mark.parametrize(
    ("below", "value", "low", "high", "verdict"),
    [
        (False, 3.0, 2.0, 4.0, "yes"),
        (False, 2.96, 2.0, 2.97, "yes"),  # two digits: 3.0
        (False, 2.0, 1.0, 3.0, "partly"),
        (False, 2.0, 1.0, 2.9, "no"),
        (True, 3.0, 2.0, 4.0, "yes"),
        (True, 4.0, 3.0, 5.0, "partly"),
        (True, 5.0, 4.0, 6.0, "no"),
    ],
)
def test_a_figure_holds_when_it_reaches_the_target_with_two_digits(
    below: bool, value: float, low: float, high: float, verdict: str
):
    one: Claim = replace(ALL["trillium-peak"], target=3.0, below=below)
    assert one.verdict(Figure("", value, low, high, "times")) == verdict
