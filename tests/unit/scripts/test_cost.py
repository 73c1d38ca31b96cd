"""What `gke-inference cost` prints."""

import json

import pytest

from infra.cost.costing import served
from infra.cost.unit_costs import unit_costs
from infra.plan import resolve
from infra.reading.load import read
from planner.choice.cost import bill
from planner.unit_cost.unit_cost import MILLION_INPUT, Traffic
from scripts.plan.cost import cost
from scripts.plan.unit_costs import print_unit_costs
from scripts.terminal.console import CommandError


def printed(capsys, stack, **options):
    cost(stack, **options)
    return capsys.readouterr().out


def test_the_sign_stands_at_the_figures_that_lack_a_price_and_at_no_other(capsys):
    text = printed(capsys, "local")
    assert "minimum $10.80, expected $21.60, maximum ≥ $43.20" in text
    (row,) = (line for line in text.splitlines() if "1/2/4" in line)
    assert row.split()[-5:] == ["10.80", "10.80", "21.60", "≥", "43.20"]


def test_sums_with_a_rung_without_a_price_say_so_and_name_the_rung(capsys):
    text = printed(capsys, "prod")
    assert "maximum ≥ $" in text
    assert "llama-3.3-70b ≥ $" in text
    assert "asia-southeast1 ≥ $" in text
    assert "qwen3-32b $" in text
    assert "no price: nvidia-h100-80gb x8 on-demand in asia-southeast1" in text


def test_the_cost_of_a_unit_by_model_carries_the_sign_where_a_line_of_it_lacks_a_price(capsys):
    text = " ".join(printed(capsys, "prod").split())
    assert "llama-3.3-70b ≥ $6." in text.partition("unit cost by model")[2]
    assert "qwen3-32b $1." in text.partition("unit cost by model")[2]
    found = json.loads(printed(capsys, "prod", as_json=True))["by_model_a_unit"]
    assert found["llama-3.3-70b"]["is_lower_bound"]
    assert not found["qwen3-32b"]["is_lower_bound"]


def test_the_lengths_that_were_taken_are_said_where_a_stack_only_embeds(capsys):
    platform = read("prod")
    every = unit_costs(resolve(platform), bill(served(resolve(platform))))
    prompts = [one for one in every if one.speed.unit == MILLION_INPUT]
    print_unit_costs(prompts, Traffic(given=4000))
    assert "Assumed: 4000 tokens in" in capsys.readouterr().out


def test_the_flag_is_in_json_by_figure_for_lines_and_sums(capsys):
    found = json.loads(printed(capsys, "local", as_json=True))
    flags = {"minimum": False, "expected": False, "maximum": True}
    assert found["is_lower_bound"] == found["lines"][0]["is_lower_bound"] == flags
    assert found["by_model"]["llama-3.1-8b"]["is_lower_bound"] == flags


def test_a_share_beyond_one_is_refused_by_the_option_as_it_is_typed():
    with pytest.raises(CommandError, match=r"^--mean-share: must be above 0 to 1, got 40$"):
        cost("local", mean_share=40)
