"""`gke-inference plan --claims`, its page and its chart."""

import json
import shlex
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from bench.command import bench
from planner.unit_cost.claims import Figure
from scripts.app import build_app
from scripts.docs.claims import claims_chart, claims_page
from scripts.plan.claims import all_claims, amount, spanned
from scripts.terminal.console import CommandError

COMMANDS = sorted({one.command for one in all_claims()})


def printed(*arguments: str) -> str:
    answer = CliRunner().invoke(build_app(("plan",)), ["plan", "--claims", *arguments])
    assert answer.exit_code == 0, answer.exception
    return answer.output


def test_every_claim_and_every_figure_is_printed():
    text = printed()
    for one in all_claims():
        assert f"\n{one.title}" in text
        for each in one.figures:
            assert spanned(each) in text


def test_json_has_the_figures_with_their_verdicts():
    listed = json.loads(printed("-o", "json"))["claims"]
    assert [one["name"] for one in listed] == [one.name for one in all_claims()]
    peak = next(one for one in listed if one["name"] == "trillium-peak")
    assert [each["holds"] for each in peak["figures"]] == ["yes"]
    assert peak["date"] == "2024-12-11"


def test_no_model_is_planned_with_the_claims():
    answer = CliRunner().invoke(build_app(("plan",)), ["plan", "llama-3.1-8b", "--claims"])
    assert isinstance(answer.exception, CommandError)
    assert str(answer.exception) == "MODEL: must be omitted with --claims, got 'llama-3.1-8b'"


@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_of_a_claim_runs_here(command: str):
    program, *arguments = shlex.split(command)
    if program == "bench":
        listed: Any = typer.main.get_command(bench)
        assert arguments[0] in listed.commands  # a run takes half an hour
        return
    assert program == "gke-inference"
    answer = CliRunner().invoke(build_app((arguments[0],)), arguments)
    assert answer.exit_code == 0, answer.exception


def test_the_page_has_a_section_for_every_claim_with_its_source_condition_and_command():
    text = claims_page()
    for one in all_claims():
        section = text.split(f"\n## {one.title}\n")[1].split("\n## ")[0]
        for part in (one.source, one.date, one.requires, f"`{one.command}`", one.settles, one.note):
            assert part in section
        for each in one.figures:
            assert f"| {each.of} | {spanned(each)} | {one.verdict(each)} |" in section


def test_the_chart_has_a_bar_for_every_claim_with_a_target_and_a_figure():
    bars = [one for one in all_claims() if one.target is not None and one.figures]
    assert claims_chart().count('fill-opacity="0.7"') == len(bars) == 12


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.248, "$", "$0.25"),
        (7.0, "chips", "7 chips"),
        (1.57, "times", "1.6 times"),
        (69.4, "times", "69 times"),
        (99.54, "%", "99.5 %"),
        (139.2, "%", "139 %"),
        (-0.04, "%", "0 %"),
    ],
)
def test_a_figure_is_shown_with_the_places_that_mean_something(value: float, unit: str, text: str):
    assert amount(value, unit) == text


def test_a_range_that_rounds_to_the_figure_is_left_out():
    assert spanned(Figure("", 1.78, 1.76, 1.84, "times")) == "1.8 times"
    assert spanned(Figure("", 2.0, 1.0, 3.0, "times")) == "2 times (1 to 3 times)"
