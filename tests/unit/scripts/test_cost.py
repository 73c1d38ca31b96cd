"""Output of `gke-inference cost`."""

import json
import re

import pytest

from infra.estimate.stack_cost import served
from infra.estimate.unit_costs import unit_costs
from infra.plan import resolve
from infra.reading.load import read
from planner.choice.cost import bill
from planner.unit_cost.unit_cost import MILLION_INPUT, Traffic
from scripts.plan.cost import cost
from scripts.plan.unit_costs import print_unit_costs
from scripts.terminal.console import CommandError
from scripts.terminal.output import Output


def printed(capsys, stack, **options):
    cost(stack, **options)
    return capsys.readouterr().out


def test_the_totals_are_plain_and_what_has_no_price_is_a_line(capsys):
    text = printed(capsys, "local")
    assert "per hour: minimum $11.11, expected $22.09, maximum $43.91" in text
    assert "≥" not in text
    assert "no published price here for Cloud Armor policy in us-central1: not in these" in text
    assert "* unverified price of boot disks hyperdisk-balanced in us-central1: compare" in text
    (row,) = (line for line in text.splitlines() if "1/2/4" in line)
    assert row.split()[-4:] == ["10.80", "10.80", "21.60", "43.20"]


def test_the_first_lines_say_the_total_where_it_goes_and_what_it_leaves_out(capsys):
    assert printed(capsys, "local").splitlines()[:5] == [
        "Expected at list prices: $16,129 a month (minimum $8,112, maximum $32,053)",
        "per hour: minimum $11.11, expected $22.09, maximum $43.91; a month has 730 hours",
        "largest shares: llama-3.1-8b 98%, cluster 2%",
        "items listed at the end: 1 without a published price, not included;"
        " 1 with an unverified price (*)",
        "",
    ]


def test_each_group_has_its_sum_above_its_parts(capsys):
    lines = [line.split() for line in printed(capsys, "local").splitlines()]
    sums = {line[0]: line[-3:] for line in lines if line[1:2] == ["all"]}
    assert list(sums) == ["accelerators", "cluster", "network", "storage", "observability"]
    assert sums["cluster"] == ["170.84", "268.67", "366.51"]
    parts = [line for line in lines if line[:1] == ["cluster"] and line[1] != "all"]
    assert [line[-3] for line in parts] == ["73.00", "97.84"]


def test_a_part_that_has_no_price_anywhere_has_a_line_and_no_row(capsys):
    text = printed(capsys, "prod")
    rows = text.partition("GROUP")[2].partition("ALWAYS RUNS")[0]
    assert "Anywhere Cache us-central1-b, at most" in rows
    assert "Anywhere Cache europe-west4-a" not in rows
    assert "for Anywhere Cache europe-west4-a, at most in europe-west4: not in these totals" in text
    assert "for nvidia-h100-80gb x8 on-demand in asia-northeast1: not in these totals" in text


def test_what_always_runs_is_shown_on_demand_and_committed(capsys):
    text = printed(capsys, "local")
    said = "$7,982 on demand, $5,580 with 1 year (30% less), $3,592 with 3 years (55% less)"
    assert said in text


def test_the_assumptions_are_printed_and_can_be_changed(capsys):
    text = " ".join(printed(capsys, "local", traffic_gib=1000.0).split())
    assert "Assumed: 1000 GiB of answers a month in each region, 2 GiB of logs" in text
    assert "GKE's free tier" in text
    assert re.search(
        r"traffic to the internet, at Premium Tier prices 1 120\.00 120\.00 120\.00", text
    )
    assert "for traffic to the internet in" not in text


def test_json_has_for_each_total_its_figures_and_what_they_miss(capsys):
    found = json.loads(printed(capsys, "local", output=Output.JSON))
    lacks = ["Cloud Armor policy in us-central1"]
    assert found["usd_per_hour"]["missing"] == found["usd_per_month"]["missing"] == lacks
    assert found["usd_per_hour"]["minimum"] == pytest.approx(8112.22 / 730, abs=1e-4)
    assert found["groups"]["network"]["missing"] == lacks
    assert found["groups"]["accelerators"] == found["by_model"]["llama-3.1-8b"]
    assert found["lines"][0]["usd_per_hour"]["missing"] == []
    assert found["commitments"]["usd_per_hour"]["missing"] == []
    disks = ["boot disks hyperdisk-balanced in us-central1"]
    assert found["usd_per_hour"]["unverified"] == disks
    (fee,) = (part for part in found["parts"] if part["what"] == "management fee")
    assert (fee["source"], fee["date"]) == ("cloud.google.com/kubernetes-engine/pricing", "2026")
    assert found["assumed"]["series_per_replica"] == 500


def test_the_cost_of_a_unit_by_model_names_what_its_lines_miss(capsys):
    found = json.loads(printed(capsys, "prod", output=Output.JSON))["by_model_a_unit"]
    lacks = "nvidia-h100-80gb x8 on-demand in asia-northeast1"
    assert lacks in found["llama-3.3-70b"]["missing"]
    assert found["qwen3-embedding-0.6b"]["missing"] == []


def test_the_lengths_that_were_taken_are_said_where_a_stack_only_embeds(capsys):
    platform = read("prod")
    every = unit_costs(resolve(platform), bill(served(resolve(platform))))
    prompts = [one for one in every if one.speed.unit == MILLION_INPUT]
    print_unit_costs(prompts, Traffic(given=4000))
    assert "Assumed: 4000 tokens in" in capsys.readouterr().out


def test_a_share_beyond_one_is_refused_by_the_option_as_it_is_typed():
    with pytest.raises(
        CommandError, match=r"^--mean-share: must be above 0 and at most 1, got 40$"
    ):
        cost("local", mean_share=40)


def test_usage_below_nothing_is_refused_by_the_option():
    with pytest.raises(CommandError, match=r"^--traffic-gib: must be 0 or more, got -1$"):
        cost("local", traffic_gib=-1)
