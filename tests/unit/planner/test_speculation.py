"""Speculative decoding: lengths of acceptance, and their effect on a step."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from gke_inference.catalogue.accelerators import accelerator as accelerator_of
from gke_inference.catalogue.accelerators import accelerator_names
from gke_inference.sizing.architectures import known
from gke_inference.sizing.shapes import shape_of
from planner.fit.chips import Efficiency, accelerator
from planner.fit.tables import table
from planner.speed.roofline import CostModel, StepLoad
from planner.speed.roofline_step import Step, one_token, peak_flops, step, work
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
    assert usual / fast == pytest.approx(2.26, abs=0.01)  # the figure of docs/engine-model.md


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


def mixed_load(made: Step, count: int, each: float, prompt: float, pairs: float) -> StepLoad:
    """Return the arrays' step with prompts, whose sequences have `each` tokens of context."""
    chunk = float(made.chunk[0])
    held = count * each
    return StepLoad(chunk, count, held + prompt, held + chunk * pairs, prompt_context=prompt)


@pytest.mark.parametrize("method", ["eagle3", "mtp", "ngram", None])
@pytest.mark.parametrize("count", [1, 64])
@pytest.mark.parametrize("cached", [0, 100_000])
def test_arrays_and_the_roofline_of_the_twin_agree_on_steps_that_also_compute_prompts(
    method: str | None, count: int, cached: int
):
    shape, chip = shape_of("llama-3.3-70b"), accelerator("nvidia-h100-80gb")
    guess = None if method is None else speculation(method, 3, "llama-3.3-70b")
    cost = CostModel(shape, chip, 4, efficiency=Efficiency(0.5, 0.65, 0.003), speculation=guess)
    given = 64 + cached
    many = work(shape, chip, tensor=4, given=given, made=2000, prefix_share=cached / given,
                guess=guess)  # fmt: skip
    made = step(many, np.array([float(count)]))
    load = mixed_load(made, count, given + 1000, given, cached + 32)
    expected = one_token(made.alone, made.mixed, many.accepted)
    assert cost.step_seconds(load) == pytest.approx(float(expected[0]), rel=1e-6)


def test_what_a_prompt_adds_is_not_divided_by_the_generated_tokens():
    shape, chip = shape_of("llama-3.3-70b"), accelerator("nvidia-h100-80gb")
    guess = replace(speculation("ngram", 3, "llama-3.3-70b"), length=2.0)
    cost = CostModel(shape, chip, 4, speculation=guess)
    alone = StepLoad(0, 1, 1000, 1000)
    prompt = 20_064  # reads bind with and without it
    mixed = StepLoad(64, 1, 1000 + prompt, 1000 + 64 * prompt, prompt_context=prompt)
    plain = CostModel(shape, chip, 4)
    added = plain.step_seconds(mixed) - plain.step_seconds(alone)
    assert cost.step_seconds(mixed) - cost.step_seconds(alone) == pytest.approx(added, rel=0.01)


def test_a_prompt_hides_only_behind_the_reads_of_one_generated_token():
    shape, chip = shape_of("llama-3.3-70b"), accelerator("nvidia-h100-80gb")
    guess = replace(speculation("ngram", 3, "llama-3.3-70b"), length=4.0)
    figures = Efficiency(0.5, 0.65, 0.003)
    cost = CostModel(shape, chip, 4, efficiency=figures, speculation=guess)
    load = StepLoad(256, 1, 1256, 129_000, prompt_context=256)
    least = cost.step_flops(load) / 4 / peak_flops(chip, shape.bits) / figures.prefill
    reads = cost.step_read_bytes(load) / 4 / (chip.bandwidth_gbps * 1e9) / figures.decode
    assert reads < least  # and whole steps would read for longer than they compute
    assert cost.step_seconds(load) > least


@pytest.mark.parametrize(("distinct", "left"), [(None, None), (3500, 2500), (1100, 1000)])
def test_prompts_count_as_if_they_shared_nothing(distinct: float | None, left: float | None):
    load = StepLoad(64, 3, 4000, 5000, distinct_tokens=distinct, prompt_context=1000)
    assert load.decoding == StepLoad(0, 3, 3000, 3000, distinct_tokens=left)


LOADS = [
    StepLoad(0, 1, 1000, 1000),
    StepLoad(0, 64, 64_000, 64_000),
    StepLoad(0, 512, 512_000, 512_000),
    StepLoad(0, 64, 640_000, 640_000, distinct_tokens=20_000),
    StepLoad(64, 1, 101_064, 6_433_000, prompt_context=100_064),
    StepLoad(2048, 64, 66_048, 2_162_000, prompt_context=2048),
]


CHIPS = [accelerator_of(name).gke_type for name in accelerator_names()]
MODELS = [model.name for model in known() if model.kind in ("dense", "moe")]


@pytest.mark.parametrize("chip_name", CHIPS)
@pytest.mark.parametrize("method", ["eagle3", "mtp", "ngram", None])
def test_no_step_reads_or_computes_more_than_the_chips_can(chip_name: str, method: str | None):
    chip = accelerator(chip_name)
    too_fast: list[str] = []
    for model, tokens, load in product(MODELS, (1, 8) if method else (0,), LOADS):
        shape = shape_of(model)
        guess = None if method is None else speculation(method, tokens, model)
        cost = CostModel(shape, chip, 1, speculation=guess)
        seconds = cost.step_seconds(load)
        reads = cost.step_read_bytes(load) / seconds / (chip.bandwidth_gbps * 1e9)
        computes = cost.step_flops(load) / seconds / peak_flops(chip, shape.bits)
        if max(reads, computes) > 1:
            too_fast.append(f"{model}: {reads:.2f}, {computes:.2f} of {load}")
    assert not too_fast, too_fast[:5]


def test_verified_and_draft_tokens_count_as_operations():
    shape, chip = shape_of("llama-3.3-70b"), accelerator("nvidia-h100-80gb")
    load = LOADS[1]
    guess = speculation("ngram", 4, "llama-3.3-70b")
    plain = CostModel(shape, chip, 4)
    ngram, eagle = (
        replace(plain, speculation=replace(guess, method=method)) for method in ("ngram", "eagle3")
    )
    factor = 5 / guess.length
    assert ngram.step_flops(load) == pytest.approx(factor * plain.flops(load))
    assert ngram.step_written_tokens(load) == pytest.approx(factor * 64)
    assert ngram.step_read_bytes(load) == pytest.approx(plain.read_bytes(load) / guess.length)
    assert eagle.step_flops(load) > 1.01 * ngram.step_flops(load)
    assert eagle.step_read_bytes(load) > 1.01 * ngram.step_read_bytes(load)
