"""Speculative decoding: lengths of acceptance, and their effect on a step."""

from dataclasses import replace

import numpy as np
import pytest

from gke_inference.sizing.shapes import shape_of
from planner.fit.chips import Efficiency, accelerator
from planner.fit.tables import table
from planner.speed.roofline import CostModel, StepLoad
from planner.speed.roofline_step import step, work
from planner.speed.speculation import first_chance, speculation


def test_a_published_length_is_found_again_with_its_number_of_tokens():
    found = speculation("mtp", 1, "deepseek-v3")
    assert (found.low, found.length, found.high) == pytest.approx((1.85, 1.875, 1.90), abs=1e-3)
    eight = speculation("eagle3", 7, "llama-3.1-8b")
    assert eight.low == pytest.approx(2.77, abs=1e-3)
    assert eight.length == pytest.approx(3.34, abs=1e-3)
    assert eight.high == pytest.approx(3.49, abs=1e-3)


def test_more_draft_tokens_add_less_and_less():
    lengths = [speculation("eagle3", tokens, "llama-3.3-70b").length for tokens in range(1, 8)]
    gains = np.diff(lengths)
    assert (gains > 0).all()
    assert (np.diff(gains) < 0).all()


def test_the_chances_of_draft_tokens_add_up_to_the_length():
    found = speculation("eagle3", 5, "llama-3.3-70b")
    assert 1 + sum(found.chances) == pytest.approx(found.length)


def test_a_length_that_nobody_published_is_assumed_with_a_wide_interval():
    found = speculation("ngram", 3, "qwen3-32b")
    assert found.source.startswith("assumed")
    assert found.low == 1.0
    assert found.doubt > 1.4
    assert speculation("eagle3", 3, "llama-3.3-70b").doubt < found.doubt


def test_every_published_length_has_a_source_and_is_possible():
    decline = table("speculation")["assumed"]["decline"]
    for row in table("speculation")["measured"]:
        assert row["source"]
        assert 0 < first_chance(row["length"], row["tokens"], decline) < 1


@pytest.mark.parametrize(
    ("method", "tokens", "message"),
    [
        ("draft", 3, "method must be one of eagle3, mtp, ngram, got 'draft'"),
        ("ngram", 17, "tokens must be 1 to 16, got 17"),
    ],
)
def test_what_cannot_be_calculated_is_refused(method: str, tokens: int, message: str):
    with pytest.raises(ValueError, match=message):
        speculation(method, tokens, "qwen3-32b")


def times(method: str | None, count: int) -> float:
    shape, chip = shape_of("llama-3.3-70b"), accelerator("nvidia-h100-80gb")
    guess = None if method is None else speculation(method, 4, "llama-3.3-70b")
    cost = CostModel(shape, chip, 4, speculation=guess)
    return cost.step_seconds(StepLoad(0, count, count * 1000, count * 1000))


def test_few_sequences_gain_and_a_full_batch_gains_little():
    few, many = (times(None, count) / times("eagle3", count) for count in (1, 512))
    assert 1.8 < few < 3
    assert many < few / 1.5


def test_speculation_that_guesses_nothing_makes_tokens_slower():
    guess = replace(speculation("eagle3", 4, "llama-3.3-70b"), length=1.0)
    shape, chip = shape_of("llama-3.3-70b"), accelerator("nvidia-h100-80gb")
    load = StepLoad(0, 8, 8000, 8000)
    with_it = CostModel(shape, chip, 4, speculation=guess).step_seconds(load)
    assert with_it > CostModel(shape, chip, 4).step_seconds(load)


def test_the_gain_for_one_sequence_is_near_the_published_one():
    # TensorRT-LLM's blog 2: 2.16 times with three tokens, DeepSeek-R1 in 4 bits on eight B200
    shape = replace(shape_of("deepseek-r1"), bits=4)
    guess = speculation("mtp", 3, "deepseek-v3")
    usual, fast = (
        float(step(work(shape, accelerator("nvidia-b200"), tensor=8, given=1000, made=2000,
                        guess=one), np.array([1.0])).decode[0])
        for one in (None, guess)
    )  # fmt: skip
    assert usual / fast == pytest.approx(2.16, rel=0.25)


@pytest.mark.parametrize("method", ["eagle3", "mtp", "ngram"])
@pytest.mark.parametrize("count", [1, 64])
def test_arrays_and_the_roofline_of_the_twin_agree_on_drafts(method: str, count: int):
    shape, chip = shape_of("llama-3.3-70b"), accelerator("nvidia-h100-80gb")
    guess = speculation(method, 3, "llama-3.3-70b")
    figures = Efficiency(0.5, 0.65, 0.003)  # those of the arrays
    cost = CostModel(shape, chip, 4, efficiency=figures, speculation=guess)
    many = work(shape, chip, tensor=4, given=1e-9, made=2000, guess=guess)
    load = StepLoad(0, count, count * 1000, count * 1000)
    found = float(step(many, np.array([float(count)])).decode[0])
    assert cost.step_seconds(load) == pytest.approx(found, rel=1e-6)
