"""Hardware for a model's traffic and SLO, and the calculation behind it."""

import re
from dataclasses import replace

import numpy as np
import pytest

from gke_inference.sizing.architectures import known
from gke_inference.sizing.memory import kv_token_bytes
from gke_inference.sizing.shapes import shape
from planner.choice.bound import bound
from planner.choice.chart import draw
from planner.choice.explain import explain
from planner.choice.floors import floors
from planner.choice.plan import Choice, best_forms, ladder, plan
from planner.choice.question import Estimate, sequences, traits_of, work_of
from planner.choice.ties import Tie, tie
from planner.speed.mixtures import read_billion
from planner.speed.roofline import CostModel, StepLoad, touched_billion
from planner.speed.roofline_step import first_token, first_token_of_loop, step
from planner.speed.throughput import BATCHES, curves
from tests.unit.planner.questions import question


@pytest.mark.parametrize(
    "name", [model.name for model in known() if model.kind in ("dense", "moe")]
)
def test_every_model_of_text_has_a_plan_with_intervals_around_every_number(name: str):
    answer = plan(question(name, given=400))
    best = answer.choices[0]
    for one in (best.ttft_p95_ms, best.tpot_p95_ms, best.tokens_per_second):
        assert 0 < one.low < one.value < one.high
    assert best.replicas >= 1


def test_choices_that_keep_the_promise_stand_first_and_the_cheapest_of_them_leads():
    choices = plan(question(tpot_p95_ms=25)).choices
    kept = [one.keeps_promise for one in choices]
    assert kept == sorted(kept, reverse=True)
    assert not all(kept)
    costs = [
        (not one.is_floor, one.usd_per_hour.value)
        for one in choices
        if one.keeps_promise and one.usd_per_hour
    ]
    assert costs == sorted(costs)
    for one in choices:
        if one.keeps_promise:
            assert one.tpot_p95_ms.value <= 25
            assert one.ttft_p95_ms.value <= 1000
            assert one.utilisation <= 0.7 + 1e-9


def test_more_traffic_never_needs_fewer_replicas():
    def replicas(rate: float) -> dict[tuple[str, ...], int]:
        return {
            (one.candidate.form.label, one.candidate.form.parallelism, one.provisioning,
             str(one.candidate.form.bits)): one.replicas
            for one in plan(question(rate=rate)).choices
        }  # fmt: skip

    few, many = replicas(5), replicas(50)
    assert all(many[key] >= count for key, count in few.items())


def test_a_tighter_promise_never_costs_less():
    def cost(tpot: float) -> float:
        hour = plan(question(tpot_p95_ms=tpot)).choices[0].usd_per_hour
        assert hour is not None
        return hour.value

    assert cost(10) >= cost(20) >= cost(80)


def test_a_shared_prefix_makes_the_first_token_come_sooner():
    def first(share: float) -> float:
        found = plan(question(given=6000, prefix_share=share, accelerators=("nvidia-h100-80gb",)))
        return best_forms(found.choices)[0].ttft_p95_ms.value

    assert first(0.9) < first(0.0)


def test_what_does_not_fit_is_refused_with_the_arithmetic():
    refused = {
        (one.form.label, one.form.bits): one.reason
        for one in plan(question("llama-3.3-70b")).refused
    }
    reason = refused["nvidia-h100-80gb x1", 16]
    assert reason == (
        "needs 151.2 GiB on each device (131.5 GiB of weights plus 15%), has 71.3 GiB"
    )


def test_a_model_that_nothing_holds_is_one_message():
    with pytest.raises(ValueError, match="model: must fit on some hardware; nvidia-l4 x1"):
        plan(question("kimi-k2", accelerators=("nvidia-l4",)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rate": 0}, "rate: must be a number above 0, got 0"),
        ({"prefix_share": 1.0}, "prefix_share: must be at least 0 and below 1, got 1.0"),
        ({"utilisation": 1.5}, "utilisation: must be above 0 and at most 1, got 1.5"),
        ({"given": 200_000}, "must be at most the 131072 tokens of llama-3.1-8b"),
        ({"bits": (3,)}, "bits: must be one of 4, 8, 16, 32, got 3"),
        ({"context": -5}, "context: must be at least the .* or 0, got -5"),
        ({"context": 10}, "context: must be at least the .* tokens of input and output together"),
        ({"rate": float("inf")}, "rate: must be a number"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(changes, message: str):
    with pytest.raises(ValueError, match=message):
        question(**changes)


def test_arrays_and_the_roofline_of_the_twin_agree_on_operations_and_links():
    asked = question("qwen3-32b", accelerators=("nvidia-h100-80gb",), bits=(16,))
    one = next(
        each.candidate for each in plan(asked).choices if each.candidate.form.parallelism == "TP2"
    )
    work = work_of(asked, one)
    model = CostModel(shape(asked.model), one.form.chip, 2)
    load = StepLoad(0, 16, 16 * 1100, 16 * 1100)
    flops = 2e9 * work.active * 16 + 4 * work.layers * work.query_width * 16 * 1100
    assert float(flops[0]) == pytest.approx(model.flops(load))
    assert float(work.kv_bytes[0]) == kv_token_bytes(model.model, 16)
    assert float(work.bandwidth[0]) == 2 * 3350e9


@pytest.mark.parametrize("tokens", [1.0, 18.0, 4000.0])
def test_arrays_and_the_roofline_of_the_twin_agree_on_what_a_mixture_reads(tokens: float):
    asked = question("gpt-oss-120b", accelerators=("nvidia-h100-80gb",))
    one = plan(asked).choices[0].candidate
    work = work_of(asked, one)
    read = read_billion(
        np.array([tokens]), active=work.active, whole=work.read, experts=work.experts,
        chosen=work.chosen, expert=work.expert,
    )  # fmt: skip
    assert float(read[0]) == pytest.approx(touched_billion(one.shape, tokens))
    assert float(read[0]) <= one.shape.parameters_billion * (1 + 1e-9)


def test_curves_rise_with_the_batch():
    asked = question(accelerators=("tpu-v6e",), bits=(16,))
    one = plan(asked).choices[0].candidate
    found = curves(
        work_of(asked, one),
        traits_of(asked, [one]),
        np.array([sequences(asked, one)]),
    )
    assert found.step.shape == (1, len(BATCHES))
    assert (found.step95 >= found.step).all()
    assert (found.ttft95 >= found.ttft).all()
    kept = found.rate[0][found.fits[0] > 0]
    assert (np.diff(kept) > 0).all()


def test_the_explanation_ends_at_the_number_in_the_table():
    asked = question()
    best = plan(asked).choices[0]
    lines = explain(asked, best)
    assert any(f"= {best.replicas}, at the slow end {best.replicas_high}" in line for line in lines)
    assert best.usd_per_hour is not None
    assert any(f"= ${best.usd_per_hour.value:.2f}/h" in line for line in lines)
    assert any(line.startswith("weights: 8.03 billion x ") for line in lines)


_DECODE = re.compile(
    r"step that only decodes: (\()?max\(computing ([\d.]+) ms, reading ([\d.]+) ms\) \+ "
    r"collectives ([\d.]+) ms \+ fixed ([\d.]+) ms(?: \+ drafting ([\d.]+) ms\) / ([\d.]+))? = "
    r"([\d.]+) ms"
)


@pytest.mark.parametrize("speculative", [None, ("eagle3", 4), ("ngram", 3)])
def test_the_explanation_of_a_step_is_a_sum_that_is_right(speculative: tuple[str, int] | None):
    asked = question("llama-3.3-70b", accelerators=("nvidia-h100-80gb",), speculative=speculative)
    lines = explain(asked, plan(asked).choices[0])
    found = next(match for line in lines if (match := _DECODE.fullmatch(line)))
    computing, reading, links, fixed, drafts, length, result = (
        float(text or 0) for text in found.groups()[1:]
    )
    assert bool(found[1]) == (speculative is not None)
    total = max(computing, reading) + links + fixed + drafts
    assert total / (length or 1) == pytest.approx(result, abs=0.02)


def test_drafting_is_no_time_of_the_engine():
    asked = question(accelerators=("nvidia-h100-80gb",))
    drafting = replace(asked, speculative=("eagle3", 4))
    one = plan(drafting).choices[0].candidate
    batch = np.array([8.0])
    plain, made = (step(work_of(each, one), batch) for each in (asked, drafting))
    assert made.alone.fixed[0] == plain.alone.fixed[0] == made.mixed.fixed[0]
    assert made.alone.drafts[0] > 0 == plain.alone.drafts[0]
    shares = bound(drafting, one).shares
    assert shares["drafting"] > 0.05
    assert sum(shares.values()) == pytest.approx(1)
    assert "drafting" not in bound(asked, one).shares


@pytest.mark.parametrize(("tokens", "words"), [(1, "1 draft token,"), (2, "2 draft tokens,")])
def test_one_draft_token_is_not_written_as_several(tokens: int, words: str):
    asked = question(accelerators=("nvidia-h100-80gb",), speculative=("ngram", tokens))
    lines = explain(asked, plan(asked).choices[0])
    assert any(f"speculative decoding with ngram: {words}" in line for line in lines)
    assert not any("  " in line for line in lines)


def test_a_ladder_starts_with_the_choice_and_has_priced_rungs_of_the_same_form():
    answer = plan(question(accelerators=("nvidia-l4",), bits=(8,)))
    best = answer.choices[0]
    rungs = ladder(best, answer.choices)
    assert rungs[0] == best
    assert len({one.provisioning for one in rungs}) == len(rungs) > 1
    assert {one.candidate for one in rungs} == {best.candidate}


def test_the_first_choice_is_on_nodes_that_nobody_takes_back():
    choices = plan(question()).choices
    assert choices[0].provisioning == "on-demand"
    cheapest = min(
        (one for one in choices if one.keeps_promise and one.usd_per_hour),
        key=lambda one: one.usd_per_hour.value if one.usd_per_hour else 0,
    )
    assert not cheapest.is_floor
    only = plan(question(provisioning=("spot",))).choices
    assert only[0].provisioning == "spot"


def test_each_region_has_its_floor_and_what_is_not_sold_on_demand_is_none():
    asked = question(
        "qwen3-32b",
        rate=1.0,
        bits=(16,),
        accelerators=("nvidia-h100-80gb", "nvidia-rtx-pro-6000"),
        regions=("us-central1", "asia-northeast1"),
    )
    found = floors(plan(asked))
    first = [(name, one and one.candidate.form.label) for name, one in found.regions]
    assert first == [("us-central1", "nvidia-rtx-pro-6000 x1"), ("asia-northeast1", None)]
    (one,) = found.temporary
    assert (one.choice.candidate.form.label, one.choice.provisioning, one.is_sold) == (
        "nvidia-h100-80gb x1", "spot", False,
    )  # fmt: skip


def test_hardware_whose_price_on_demand_is_unknown_is_no_floor():
    asked = question(
        bits=(16,),
        rate=3.0,
        accelerators=("nvidia-a100-40gb", "nvidia-l4"),
        regions=("asia-northeast1",),
    )
    (one,) = floors(plan(asked)).temporary
    assert (one.choice.candidate.form.word, one.is_sold) == ("nvidia-a100-40gb", True)
    assert floors(plan(replace(asked, provisioning=("spot",)))).temporary == ()


def test_choices_whose_costs_can_be_equal_are_a_tie():
    one, *others = best_forms(plan(question("qwen3-14b")).choices)[:4]

    def costing(choice: Choice, low: float, value: float, high: float) -> Choice:
        return replace(choice, usd_per_hour=Estimate(value, low, high))

    first = costing(one, 8, 10, 12)
    other = next(each for each in others if each.candidate.form.word != one.candidate.form.word)
    near, far = costing(other, 11, 12.5, 14), costing(other, 13, 14, 15)
    found = tie([first, near, far])
    assert found is not None
    assert (found.numbers, found.rival, found.cheaper) == ((1, 2), 2, pytest.approx(0.2))
    assert tie([first, costing(one, 9, 11, 13)]) == Tie((1, 2), 0, 0.0)
    assert tie([first, far]) is None
    assert tie([first, replace(near, provisioning="spot")]) is None


def test_a_price_that_moved_since_its_source_says_when():
    choices = plan(question(accelerators=("nvidia-h100-80gb",), regions=("us-central1",))).choices
    spot = next(one for one in choices if one.provisioning == "spot")
    assert any("on 2026-09-26" in note for note in spot.notes)


def test_requests_of_a_closed_loop_wait_for_the_burst_at_its_beginning():
    asked = question(accelerators=("nvidia-h100-80gb",), bits=(16,))
    work = work_of(asked, plan(asked).choices[0].candidate)
    batch = np.array([64.0])
    made = step(work, batch)
    alone = first_token(work, made)
    short, long = (
        first_token_of_loop(work, made, batch, batch, np.array([waves])) for waves in (3.0, 1e9)
    )
    assert short > 2 * alone
    assert long == pytest.approx(alone)
    crowded = first_token_of_loop(work, made, batch, 2 * batch, np.array([10.0]))
    assert crowded > short + 0.5 * work.made * made.seconds


def test_the_interval_of_the_first_token_is_its_own():
    best = plan(question()).choices[0]
    first, between = (one.high / one.value for one in (best.ttft_p95_ms, best.tpot_p95_ms))
    assert first == pytest.approx(best.spread_first)
    assert between == pytest.approx(best.spread)
    assert first > between


def test_a_reservation_precedes_even_the_chosen_way_to_buy():
    ways = ("reservation", "on-demand", "spot")
    answer = plan(question(accelerators=("nvidia-l4",), bits=(8,), provisioning=ways))
    best = next(one for one in answer.choices if one.provisioning == "spot")
    rungs = [one.provisioning for one in ladder(best, answer.choices)]
    assert rungs == ["reservation", "spot", "on-demand"]


def test_the_chart_has_a_mark_for_every_priced_form(tmp_path):
    answer = plan(question(accelerators=("nvidia-h100-80gb",), bits=(16,)))
    file = tmp_path / "chart.svg"
    count = draw(answer, file)
    assert count == len([one for one in best_forms(answer.choices) if one.usd_per_million])
    first = file.read_bytes()
    draw(answer, file)
    assert file.read_bytes() == first


def test_without_a_context_half_as_much_again_as_prompt_and_answer_is_planned_for():
    assert question(given=1000, made=200).longest == 1800
    assert question(given=1000, made=200, context=1200).longest == 1200
    assert question(given=100_000, made=20_000).longest == 131_072  # what the model takes
