"""The rehearsed day in a verdict: figures before and after, and which limit the change breaks."""

import json

import pytest

from scripts.check import verdict as command
from scripts.verdicts.checkouts import touches
from scripts.verdicts.markdown import comment
from scripts.verdicts.rehearsed import Line, Rehearsed
from scripts.verdicts.terminal import lines
from scripts.verdicts.verdict import StackVerdict, Verdict

LATE = Line("late, chat ttft_p95_ms of 500 ms", "%", 2.0, 7.5, 5.0)
USD = Line("accelerators", "$", 1200.0, 900.0)


def judged(*found, traffic="traffic/day.yaml", problem=""):
    day = Rehearsed(traffic, 24.0, tuple(found), problem)
    return Verdict("main", "head", (StackVerdict("dev", rehearsal=day),))


def test_an_objective_that_the_change_breaks_blocks_with_limit_and_both_figures():
    found = judged(LATE, USD)
    assert found.word == "blocked"
    assert found.blocks == [
        "dev: rehearsal: late, chat ttft_p95_ms of 500 ms: must be at most 5.00 %, got 7.50 % "
        "(before 2.00 %)"
    ]


@pytest.mark.parametrize("before", [6.0, None])
def test_an_objective_that_was_broken_is_shown_and_does_not_block(before):
    line = Line(LATE.name, "%", before, 7.5, 5.0)
    assert bool(judged(line).blocks) is (before is None)
    assert "**fails**" in comment(judged(line))


def test_the_comment_has_a_row_for_each_figure_with_its_change():
    text = comment(judged(LATE, USD))
    assert "<summary>Rehearsed day: broken: late, chat ttft\\_p95\\_ms of 500 ms</summary>" in text
    assert "| 24 h of `traffic/day.yaml` | before | after | Δ | at most |  |" in text
    assert "| accelerators | $1,200.00 | $900.00 | -300.00 |  |  |" in text
    row = "| late, chat ttft\\_p95\\_ms of 500 ms | 2.00 % | 7.50 % | +5.50 | 5.00 % | **fails** |"
    assert row in text


def test_the_terminal_and_the_json_have_the_same_figures():
    found = judged(LATE)
    assert (
        "  rehearsal          late, chat ttft_p95_ms of 500 ms: 2.00 % to 7.50 %, at most 5.00 % "
        "FAILS"
    ) in list(lines(found))
    day = json.loads(command.as_json(found))["stacks"]["dev"]["rehearsal"]
    assert (day["traffic"], day["lines"][0]["change"], day["lines"][0]["fails"]) == (
        "traffic/day.yaml", 5.5, True,
    )  # fmt: skip


def test_a_stack_without_a_traffic_file_has_no_section():
    found = Verdict("main", "head", (StackVerdict("dev"),))
    assert "Rehearsed day" not in comment(found)
    assert json.loads(command.as_json(found))["stacks"]["dev"]["rehearsal"] is None


def test_traffic_that_cannot_be_read_blocks_with_its_reason():
    found = judged(problem="rehearsal.traffic: must be readable")
    assert found.blocks == ["dev: rehearsal: rehearsal.traffic: must be readable"]


def test_a_file_beside_the_stacks_touches_them_as_it_may_be_their_traffic():
    assert touches("dev", ["stacks/traffic/day.yaml"])
    assert not touches("dev", ["stacks/schema.json"])
