from pathlib import Path

import pytest

from bench.cache import Asked, Question, questions, row_of, usd_per_answer
from scripts.terminal.console import CommandError


def asked(right: str, said: str, *, is_hit: bool = False) -> Asked:
    return Asked(Question(right, right), is_hit, said, 0.001 if is_hit else 0.05)


def test_only_right_hits_save_dollars():
    found = [
        asked("a", "a"),
        asked("a", "a", is_hit=True),
        asked("b", "a", is_hit=True),
        asked("c", "c"),
    ]
    row = row_of(0.8, found, usd=0.0002)
    assert (row["hits"], row["wrong"], row["known"]) == (2, 1, 1)
    assert (row["saved"], row["saved_usd_per_million"]) == (0.25, 50.0)
    without_hits = [asked("a", "a"), asked("a", "a")]
    assert row_of(0.8, without_hits, usd=0.0002)["saved_usd_per_million"] == 0.0


def test_an_answer_costs_the_planners_estimate_of_its_tokens():
    usd_per_million_tokens = usd_per_answer() / 200 * 1e6
    assert usd_per_million_tokens == pytest.approx(1.62, rel=0.01), "as `cost --stack local` has it"


def test_own_questions_share_the_answers_of_their_wordings_only(tmp_path: Path):
    file = tmp_path / "own.yaml"
    file.write_text("- asked: [a, A]\n  unlike: [b, c]\n- asked: [d]\n")
    found = {question.text: question.answer for question in questions(file)}
    assert found["a"] == found["A"]
    assert len(set(found.values())) == 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- asked: []\n", r"\[0\]\.asked must have at least one question, got none"),
        ("- question: a\n", r"\[0\] must have asked, and may have unlike, got"),
        ("- asked: [a]\n- asked: [a]\n", "each question must be in it once, got twice 'a'"),
        ("- asked: [1]\n", r"\[0\]\.asked must be a list of texts, got \[1\]"),
        ("asked: [a]\n", "must be a list, got"),
        ("[]\n", "must have at least one question, got none"),
        ("[\n", "must be a YAML file"),
    ],
)
def test_a_file_that_has_no_questions_is_refused(tmp_path: Path, text: str, message: str):
    file = tmp_path / "own.yaml"
    file.write_text(text)
    with pytest.raises(CommandError, match=message):
        questions(file)
