"""Scores of two models, from what the harness reports."""

import json

import pytest

from workloads.optimization.evaluate import NoScore, compare, own_task
from workloads.optimization.samples import SampleError
from workloads.optimization.scores import Result, ResultError, Score, Side

SIDE = Side("chat", "v2", "chat-v2@1")


def harness(**metrics):
    """Return what lm-evaluation-harness reports of one task."""
    return {
        "higher_is_better": {"task": {"exact_match": True, "word_perplexity": False}},
        "n-samples": {"task": {"effective": 50, "original": 100}},
        "results": {"group": {"alias": "group"}, "task": {"alias": "task", **metrics}},
    }


def result(*scores):
    return Result("canary", "2026-11-29T12:00:00Z", SIDE, SIDE, scores)


def score(candidate, baseline, *, higher=True):
    return Score("task", "m,none", candidate, baseline, higher, None, 50)


def test_the_first_metric_of_a_task_is_compared():
    found = {"exact_match,strict": 0.5, "exact_match_stderr,strict": 0.07, "exact_match,loose": 0.9}
    (one,) = compare(harness(**found), harness(**{**found, "exact_match,strict": 0.6}), "")
    assert one == Score("task", "exact_match,strict", 0.5, 0.6, True, 0.07, 50)


def test_a_named_metric_is_compared():
    found = {"exact_match,strict": 0.5, "exact_match,loose": 0.9}
    (one,) = compare(harness(**found), harness(**found), "exact_match,loose")
    assert one.candidate == 0.9


def test_an_unknown_metric_is_refused_with_those_of_the_task():
    found = harness(**{"exact_match,strict": 0.5})
    with pytest.raises(NoScore, match=r"must be one of task \(exact_match,strict\), got 'acc,no'"):
        compare(found, found, "acc,no")


@pytest.mark.parametrize(
    ("candidate", "baseline", "higher", "is_lost"),
    [
        (0.80, 0.90, True, False),  # exactly the tolerance
        (0.79, 0.90, True, True),
        (0.95, 0.90, True, False),
        (5.2, 5.0, False, True),  # a perplexity
        (4.0, 5.0, False, False),
    ],
)
def test_a_candidate_loses_when_it_is_worse_by_more_than_the_tolerance(
    candidate, baseline, higher, is_lost
):
    one = score(candidate, baseline, higher=higher)
    assert list(result(one).lost(0.1)) == ([one] if is_lost else [])


def test_a_result_is_read_as_it_was_written():
    one = result(score(0.5, 0.6))
    assert Result.parse(one.dump()) == one


@pytest.mark.parametrize("text", ["{", "{}", json.dumps({"name": "a"}), result().dump()])
def test_what_is_no_result_is_refused(text):
    with pytest.raises(ResultError):
        Result.parse(text)


def test_own_questions_become_a_task(tmp_path):
    task = own_task(['{"question": "2+2?", "answer": "4", "source": "me"}', ""], tmp_path, 16)
    assert (tmp_path / "questions.jsonl").read_text() == '{"answer": "4", "question": "2+2?"}\n'
    assert task["generation_kwargs"]["max_gen_toks"] == 16


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "must have at least one question"),
        (['{"question": "a"}'], "line 1: must have question and answer"),
        (['{"question": "a", "answer": 4}'], "line 1: question and answer must be text"),
    ],
)
def test_questions_without_an_answer_are_refused(lines, message, tmp_path):
    with pytest.raises(SampleError, match=message):
        own_task(lines, tmp_path, 16)
