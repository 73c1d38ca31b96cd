"""Speed of computing prompts alone: for embeddings and disaggregated prefill."""

import json
from dataclasses import replace
from typing import Any

import pytest

from gke_inference.catalogue.rungs import Rung, check_rung
from gke_inference.sizing.architectures import find
from infra.estimate.stack_cost import served
from infra.estimate.unit_costs import DEFAULT_TRAFFIC, by_model, unit_costs
from infra.plan import resolve
from infra.reading.load import parse, platform_of
from planner.choice.cost import bill
from planner.choice.served import PREFILL
from planner.unit_cost.prompt_speed import decode_speed, embed_speed, prefill_speed
from planner.unit_cost.unit_cost import MILLION_INPUT, Asked, Traffic, UnitCost, token_speed
from twin.host.paths import REPOSITORY

MODEL = "llama-3.3-70b"


def asked(name: str, **others: Any) -> Asked:
    model = find(name)
    assert model is not None
    return Asked(model, model.parameters_billion, 16, 8192, "vllm", **others)


def rung(accelerator: str = "nvidia-l4", count: int = 1) -> Rung:
    entry = {"accelerator": accelerator, "count": count, "provisioning": "spot"}
    return check_rung(entry)


def rate(speed: Any) -> float:
    assert speed.per_second is not None, speed.basis
    return speed.per_second.value


def apart(threshold: int = 256) -> tuple[UnitCost, ...]:
    """Return the costs of prod with one model's prompts computed apart, in one region."""
    raw = platform_of(REPOSITORY / "stacks" / "Pulumi.prod.yaml")
    h200 = raw["capacity"]["heavy"]["rungs"][0]
    raw["capacity"]["heavy"] = {"rungs": [{**h200, "reservation_zones": ["us-central1-b"]}]}
    model = raw["models"][MODEL]
    del model["disk"]
    model["regions"] = ["us-central1"]
    prefill = {"replicas": {"min": 2, "max": 6}}
    model["disaggregated"] = {"prefill": prefill, "threshold_tokens": threshold}
    raw["models"] = {MODEL: model}
    del raw["clients"]["teams"]["assistant"]["models"]  # one of them is gone
    platform = parse(json.dumps(raw))
    return unit_costs(resolve(platform), bill(served(resolve(platform))), DEFAULT_TRAFFIC)


def test_an_embedding_costs_by_the_tokens_of_its_prompts():
    raw = platform_of(REPOSITORY / "stacks" / "Pulumi.prod.yaml")
    platform = parse(json.dumps(raw))
    costs = unit_costs(resolve(platform), bill(served(resolve(platform))))
    one = next(one for one in costs if one.model == "qwen3-embedding-0.6b")
    assert one.speed.unit == MILLION_INPUT
    assert one.usd is not None
    assert one.usd_per_replica_hour is not None
    tokens = 0.7 * rate(one.speed) * 3600 / 1e6
    assert one.usd.value.value == pytest.approx(one.usd_per_replica_hour.value / tokens)
    assert one.usd.low.value < one.usd.value.value < one.usd.high.value


def test_an_embedding_computes_at_most_what_the_chip_can_and_more_on_a_larger_chip():
    small = asked("bge-m3")
    slow, fast = (
        rate(embed_speed(small, rung(name), Traffic()))
        for name in ("nvidia-l4", "nvidia-h100-80gb")
    )
    assert slow < fast
    peak = 121e12  # of an L4 in 16 bits, dense
    computed = small.parameters_billion * 1e9 - 250_002 * 1024
    assert 0.2 < slow * 2 * computed / peak < 1  # as a dense model does, not as a mixture


def test_steps_are_smaller_where_the_promise_is_short_and_none_keeps_one_too_short():
    long, short = (
        embed_speed(asked("qwen3-embedding-0.6b", ttft_p95_ms=limit), rung(), Traffic())
        for limit in (5000.0, 400.0)
    )
    assert long.keeps_promise
    assert short.keeps_promise
    assert rate(short) < rate(long)
    never = embed_speed(asked("qwen3-embedding-0.6b", ttft_p95_ms=1.0), rung(), Traffic())
    assert not never.keeps_promise
    assert "1 ms to the first token, 95th percentile (promised; no step keeps it)" in never.basis


def test_how_full_replicas_are_decides_how_long_a_prompt_waits():
    tight = asked("qwen3-embedding-0.6b", ttft_p95_ms=900.0)
    idle, full = (
        rate(embed_speed(tight, rung(), Traffic(utilisation=part))) for part in (0.3, 0.9)
    )
    assert idle > full


def test_a_prompt_longer_than_the_context_has_a_reason():
    found = embed_speed(asked("bge-m3"), rung(), Traffic(given=9000))
    assert found.per_second is None
    assert found.basis == "input: must be at most the 8192 tokens of its context, got 9000"


def test_a_prompt_as_long_as_the_context_is_embedded():
    assert rate(embed_speed(asked("bge-m3"), rung(), Traffic(given=8192))) > 0


def test_half_of_the_work_is_faster_than_the_whole_and_each_keeps_its_own_promise():
    large = replace(asked(MODEL, ttft_p95_ms=2000.0, tpot_p95_ms=60.0), context=65536)
    eight = rung("nvidia-h200-141gb", 8)
    whole, prompts, answers = (
        speed(large, eight, Traffic()) for speed in (token_speed, prefill_speed, decode_speed)
    )
    assert rate(whole) < rate(prompts)
    assert rate(whole) < rate(answers)
    assert "prompts only; 2000 ms to the first token, 95th percentile (promised)" in prompts.basis
    assert "answers only; 60 ms between tokens, 95th percentile (promised)" in answers.basis


def test_longer_prompts_make_the_half_that_computes_them_dearer_and_not_the_other_as_much():
    large = replace(asked(MODEL, ttft_p95_ms=9000.0), context=65536)
    eight = rung("nvidia-h200-141gb", 8)
    ratios = [
        rate(speed(large, eight, Traffic(given=1000)))
        / rate(speed(large, eight, Traffic(given=8000)))
        for speed in (prefill_speed, decode_speed)
    ]
    assert ratios[0] > 7
    assert ratios[1] < ratios[0] / 2


def test_a_model_whose_prompts_are_computed_apart_costs_both_halves():
    costs = apart()
    halves = {one.role: one for one in costs}
    assert set(halves) == {"serve", PREFILL}
    values = [one.usd.value.value for one in costs if one.usd is not None]
    found = by_model(costs)[MODEL].usd
    assert len(values) == 2
    assert found is not None
    assert found.value.value == pytest.approx(sum(values))
    assert found.low.value < found.value.value < found.high.value
    # more of one role than the traffic needs makes a token no dearer
    more = [replace(one, replicas=9 if one.role == PREFILL else one.replicas) for one in costs]
    assert by_model(more)[MODEL].usd == found


def test_prompts_that_stay_on_decode_have_a_reason_and_the_whole_work_there():
    found = {one.role: one.speed for one in apart(threshold=2000)}
    assert found[PREFILL].per_second is None
    assert found[PREFILL].basis == (
        "of prompts 1000 tokens are computed, and below 2000 decode does it"
    )
    assert rate(found["serve"]) < rate({one.role: one.speed for one in apart()}["serve"])


def wide(**backends: str) -> dict[str, float]:
    """Return the answer tokens per second of the roles of the wide-EP example."""
    raw = platform_of(REPOSITORY / "docs" / "examples" / "wide-ep" / "Pulumi.wide-ep.yaml")
    raw["models"]["deepseek-r1"]["experts"]["all2all"] = backends
    platform = resolve(parse(json.dumps(raw)))
    every = unit_costs(platform, bill(served(platform)), DEFAULT_TRAFFIC)
    return {one.role: rate(one.speed) for one in every}


def test_each_role_sends_tokens_to_experts_with_its_own_backend():
    usual = wide()
    assert wide(prefill="deepep_high_throughput", decode="deepep_low_latency") == usual
    gathered = wide(prefill="allgather_reducescatter")
    decode = next(role for role in usual if role != PREFILL)
    assert gathered[PREFILL] < usual[PREFILL]
    assert gathered[decode] == usual[decode]
