"""Cost of a million tokens or a thousand images of a stack's models."""

import json
from dataclasses import replace
from typing import Any

import pytest

from gke_inference.catalogue.rungs import check_rung
from gke_inference.sizing.architectures import find
from infra.estimate.stack_cost import served
from infra.estimate.unit_costs import DEFAULT_TRAFFIC, by_model, unit_costs
from infra.plan import resolve
from infra.reading.load import parse, platform_of
from infra.reading.load import read as read_stack
from infra.stack import Platform
from planner.amount import Amount
from planner.choice.cost import Bill, bill
from planner.choice.plan import plan
from planner.choice.question import Question
from planner.unit_cost.unit_cost import (
    THOUSAND_PICTURES,
    THOUSAND_VIDEOS,
    Asked,
    Traffic,
    UnitCost,
    blended,
    diffusion_speed,
    token_speed,
)
from scripts.plan.unit_costs import print_unit_costs, unit_cost_as_json
from twin.host.paths import REPOSITORY


def costs_of(
    stack: str,
    traffic: Traffic = DEFAULT_TRAFFIC,
    changes: dict[str, dict[str, Any]] | None = None,
) -> tuple[UnitCost, ...]:
    raw = platform_of(REPOSITORY / stack)
    for name, fields in (changes or {}).items():
        raw["models"][name] |= fields
    platform = parse(json.dumps(raw))
    return unit_costs(resolve(platform), bill(served(resolve(platform))), traffic)


PROD = "stacks/Pulumi.prod.yaml"


def only(costs: tuple[UnitCost, ...], model: str, **fields: str) -> UnitCost:
    (found,) = (
        one
        for one in costs
        if one.model == model and all(getattr(one, key) == want for key, want in fields.items())
    )
    return found


def test_every_line_of_a_bill_has_a_cost_of_a_unit_and_what_it_rests_on():
    costs = costs_of(PROD)
    assert len(costs) == len(bill(served(resolve(read_stack("prod")))).lines)
    for one in costs:
        assert one.usd is not None
        assert one.speed.basis


def test_a_million_tokens_cost_what_the_planner_says_of_the_same_hardware():
    (one,) = costs_of("stacks/Pulumi.local.yaml")
    model = find("llama-3.1-8b")
    assert model is not None
    # at the most that one replica serves, the planner's replicas are exactly that many
    question = Question(
        model, 1.0, 1000, 200, 500, 40, regions=("us-central1",), provisioning=("reservation",),
        accelerators=("tpu-v6e",), bits=(16,), context=16384,
    )  # fmt: skip
    (choice,) = (
        choice
        for choice in plan(question).choices
        if choice.candidate.form.label == "tpu-v6e 2x2" and choice.candidate.form.tensor == 4
    )
    assert one.speed.per_second is not None
    assert one.usd is not None
    assert one.speed.per_second.value == pytest.approx(choice.tokens_per_second.value)
    assert one.speed.per_second.low == pytest.approx(choice.tokens_per_second.low)
    assert choice.price is not None
    tokens = 0.7 * choice.tokens_per_second.value * 3600 / 1e6
    assert one.usd.value.value == pytest.approx(choice.price.usd_per_hour / tokens)
    assert one.usd.low.value < one.usd.value.value < one.usd.high.value


def test_the_traffic_that_is_assumed_moves_the_cost():
    usual = only(costs_of(PROD), "qwen3-32b", region="us-central1", role="serve").usd
    shared = only(
        costs_of(PROD, Traffic(prefix_share=0.9)), "qwen3-32b", region="us-central1", role="serve"
    ).usd
    idle = only(
        costs_of(PROD, Traffic(utilisation=0.35)), "qwen3-32b", region="us-central1", role="serve"
    ).usd
    assert usual is not None
    assert shared is not None
    assert idle is not None
    assert shared.value.value < usual.value.value
    assert idle.value.value == pytest.approx(2 * usual.value.value)


def test_the_stacks_own_split_and_bits_count():
    usual = only(costs_of(PROD), "llama-3.3-70b", region="us-central1").speed.per_second
    halves = costs_of(PROD, changes={"llama-3.3-70b": {"settings": {"tensor_parallel": 4}}})
    eight = costs_of(
        PROD, changes={"llama-3.3-70b": {"size": {"parameters_billion": 70.6, "bits": 8}}}
    )
    split = only(halves, "llama-3.3-70b", region="us-central1").speed.per_second
    narrow = only(eight, "llama-3.3-70b", region="us-central1").speed.per_second
    assert usual is not None
    assert split is not None
    assert narrow is not None
    assert split.value != usual.value
    assert narrow.value > usual.value


def test_a_rung_that_keeps_no_promise_says_so_and_has_a_number_beyond_it():
    fast = {"llama-3.1-8b": {"slo": {"ttft_p95_ms": 500, "tpot_p95_ms": 2}}}
    slow = only(costs_of(PROD, changes=fast), "llama-3.1-8b", region="us-central1", role="standby")
    assert not slow.speed.keeps_promise
    assert slow.usd is not None
    assert "500 ms to the first token" in slow.speed.basis
    assert "no batch keeps it" in slow.speed.basis


def fp8_stack(context: int) -> Platform:
    """Return the local stack on L4 only, with a KV cache of 8 bits."""
    raw = platform_of(REPOSITORY / "stacks" / "Pulumi.local.yaml")
    raw["capacity"]["interactive"]["rungs"] = raw["capacity"]["interactive"]["rungs"][1:]
    model = raw["models"]["llama-3.1-8b"]
    model |= {"context": context, "settings": {"kv_cache_dtype": "fp8"}}
    del model["form"], model["replicas"]["standby"]
    return parse(json.dumps(raw))


def test_a_stack_that_fits_by_its_small_kv_cache_has_a_cost_and_no_reason_against_it():
    platform = fp8_stack(50_000)
    for one in unit_costs(resolve(platform), bill(served(resolve(platform)))):
        assert not one.speed.basis.startswith("it needs")
        assert one.usd is not None


def test_a_smaller_kv_cache_holds_more_and_serves_more():
    known = find("llama-3.1-8b")
    assert known is not None
    rung = check_rung({"accelerator": "nvidia-l4", "count": 1, "provisioning": "spot"})
    asked = Asked(known, 8.03, 16, 8192, "vllm", tpot_p95_ms=200)
    usual, small = (
        token_speed(replace(asked, kv_bits=bits), rung, DEFAULT_TRAFFIC).per_second
        for bits in (16, 8)
    )
    assert usual is not None
    assert small is not None
    assert small.value > usual.value


@pytest.mark.parametrize(
    ("slo", "said"),
    [
        ({"ttft_p95_ms": 900}, "(the first promised, the other assumed"),
        ({"tpot_p95_ms": 90}, "(the second promised, the other assumed"),
        ({"ttft_p95_ms": 900, "tpot_p95_ms": 90}, "(promised"),
        ({"cold_start_s": 900}, "(assumed, no SLO in the stack"),
    ],
)
def test_only_a_latency_that_the_stack_promises_is_said_to_be_promised(
    slo: dict[str, int], said: str
):
    (one,) = costs_of("stacks/Pulumi.local.yaml", changes={"llama-3.1-8b": {"slo": slo}})
    assert f"95th percentiles {said}" in one.speed.basis
    assert one.speed.basis.endswith(")")


def test_no_steps_are_refused_and_not_taken_for_the_models_own():
    model = find("flux-schnell")
    assert model is not None
    rung = check_rung({"accelerator": "tpu-v6e", "topology": "1x1", "provisioning": "spot"})
    with pytest.raises(ValueError, match="steps: must be 1 or more, got 0"):
        diffusion_speed(model, rung, steps=0)


def test_a_longer_request_than_the_models_context_has_a_reason_and_no_number():
    one = only(
        costs_of(PROD, Traffic(given=40_000)), "qwen3-32b", region="us-central1", role="serve"
    )
    assert one.usd is None
    assert one.speed.basis.startswith("input and output: must be at most the 32768 tokens")


def test_an_unknown_architecture_has_a_reason_and_no_number():
    costs = costs_of(
        "stacks/Pulumi.local.yaml", changes={"llama-3.1-8b": {"weights": "gs://bucket/ours"}}
    )
    assert costs[0].usd is not None  # its name is looked at, too
    raw = platform_of(REPOSITORY / "stacks" / "Pulumi.local.yaml")
    raw["models"] = {"ours": {**raw["models"]["llama-3.1-8b"], "weights": "ours"}}
    platform = parse(json.dumps(raw))
    (one,) = unit_costs(resolve(platform), bill(served(resolve(platform))))
    assert one.usd is None
    assert one.speed.basis == "the architecture of ours is not known"


def test_pictures_are_counted_in_thousands_and_every_chip_draws():
    (one,) = costs_of("docs/examples/images/Pulumi.images.yaml")
    assert one.speed.unit == THOUSAND_PICTURES
    model = find("flux-schnell")
    assert model is not None
    chip, four = (
        check_rung({"accelerator": "tpu-v6e", "topology": shape, "provisioning": "spot"})
        for shape in ("1x1", "2x2")
    )
    single, whole = (diffusion_speed(model, rung, steps=4).per_second for rung in (chip, four))
    assert single is not None
    assert whole is not None
    assert whole.value == pytest.approx(4 * single.value)
    small = diffusion_speed(model, four, steps=4, size="512x512").per_second
    assert small is not None
    assert small.value == pytest.approx(4 * whole.value)


def test_videos_are_counted_in_thousands_at_their_first_size_and_length():
    (one,) = costs_of("docs/examples/video/Pulumi.video.yaml")
    assert one.speed.unit == THOUSAND_VIDEOS
    assert one.speed.basis.startswith("832x480, 81 frames in 50 steps; 28% of peak")
    wan = find("wan-2.1-1.3b")
    assert wan is not None
    four = check_rung({"accelerator": "tpu-v6e", "topology": "2x2", "provisioning": "spot"})
    found = diffusion_speed(wan, four, steps=50, size="832x480", frames=81)
    assert one.speed.per_second == found.per_second
    assert one.usd is not None
    assert one.usd.low.value < one.usd.value.value < one.usd.high.value


def test_a_distilled_model_beside_its_base_costs_a_fraction_of_it():
    (base,) = costs_of("docs/examples/sdxl/Pulumi.sdxl.yaml")
    (distilled,) = base.of_further
    assert (base.model, distilled.model) == ("sdxl", "sdxl-lightning")
    assert base.speed.basis.startswith("1024x1024 in 20 steps; MLPerf Inference v4.1")
    rates = [one.speed.per_second for one in (base, distilled)]
    assert rates[0] is not None
    assert rates[1] is not None
    assert rates[0].value == pytest.approx(4 * 1.3597)
    assert rates[1].value > 3 * rates[0].value


def test_a_model_over_its_regions_costs_the_mean_by_what_is_made():
    costs = [one for one in costs_of(PROD) if one.model == "gemma-3-27b"]
    whole = blended(costs)
    assert whole is not None
    each = [one.usd.value.value for one in costs if one.usd is not None]
    assert min(each) < whole.value.value < max(each)
    assert by_model(costs)["gemma-3-27b"].usd == whole
    assert blended([*costs, replace(costs[0], usd_per_replica_hour=None)]) is None


def test_a_unit_on_a_rung_behind_one_without_a_price_misses_that_and_so_does_its_model():
    platform = read_stack("local")
    found = bill(served(resolve(platform)))
    (line,) = found.lines
    unpriced = replace(line.options[0], rung="a chip", price=None)
    behind = Bill((replace(line, options=(unpriced, *line.options)),))
    # a rung for each option, as in every line
    behind = Bill(
        tuple(
            replace(one, served=replace(one.served, rungs=(one.served.rungs[0], *one.served.rungs)))
            for one in behind.lines
        )
    )
    for bill_, missing in ((found, []), (behind, ["a chip in us-central1"])):
        costs = unit_costs(resolve(platform), bill_)
        (each,) = costs
        assert each.usd_per_replica_hour is not None
        assert [str(one) for one in each.usd_per_replica_hour.missing] == missing
        whole = by_model(costs)["llama-3.1-8b"].usd
        assert whole is not None
        assert [str(one) for one in whole.low.missing] == missing


@pytest.mark.parametrize(
    ("field", "value", "rule"),
    [
        ("given", 0, "input: must be 1 or more, got 0"),
        ("made", 0, "output: must be 1 or more, got 0"),
        ("prefix_share", 1.0, "prefix_share: must be at least 0 and below 1, got 1.0"),
        ("utilisation", float("nan"), "utilisation: must be above 0 and at most 1, got nan"),
    ],
)
def test_traffic_that_cannot_be_is_refused(field: str, value: float, rule: str):
    fields: dict[str, Any] = {field: value}
    with pytest.raises(ValueError, match=rule):
        Traffic(**fields)


@pytest.mark.parametrize(
    ("usd", "said"),
    [(1234.5, "1,234.50"), (0.1, "0.10"), (0.0999, "0.100"), (0.0063, "0.0063"), (0.0, "0.00")],
)
def test_a_unit_of_less_than_ten_cents_is_said_with_two_digits(usd, said):
    assert f"{Amount(usd):unit}" == said
    assert f"{Amount(usd):$unit}" == f"${said}"


def two_models(name: str = "flux-mini", **mini: Any) -> tuple[UnitCost, ...]:
    """Return the unit costs of the image example with a second model on every chip."""
    size = {"parameters_billion": 5.6, "bits": 16}
    models = {name: {"size": size, **mini}}
    changed = {"flux-schnell": {"size": size, "images": {"models": models}}}
    return costs_of("docs/examples/images/Pulumi.images.yaml", changes=changed)


def test_a_further_image_model_has_the_unit_cost_of_its_own_steps():
    (first,) = two_models(weights="flux.1-dev", steps=7)
    (further,) = first.of_further
    assert (further.model, further.region, further.rung) == ("flux-mini", first.region, first.rung)
    assert further.speed.basis.startswith("1024x1024 in 7 steps; ")
    dev = find("flux.1-dev")
    assert dev is not None
    rung = check_rung({"accelerator": "tpu-v6e", "topology": "2x2", "provisioning": "on-demand"})
    assert further.speed.per_second == diffusion_speed(dev, rung, steps=7).per_second
    said = by_model([first])
    assert list(said) == ["flux-schnell", "flux-mini"]
    assert (said["flux-schnell"].server, said["flux-mini"].server) == ("", "flux-schnell")
    assert said["flux-mini"].usd == further.usd


def test_models_with_chips_of_their_own_share_the_price_of_a_replica_by_their_chips():
    (dev,) = costs_of("docs/examples/image-models/Pulumi.image-models.yaml")
    of = {each.model: each for each in (dev, *dev.of_further)}
    assert dev.usd_per_replica_hour is not None
    quarter = dev.usd_per_replica_hour.value / 4
    speeds = {name: each.speed.per_second for name, each in of.items()}
    for name, each in of.items():
        speed = speeds[name]
        assert speed is not None
        assert each.usd is not None
        # thousand images at the assumed utilization, on one of the four chips
        assert each.usd.value.value == pytest.approx(quarter / (3600 * 0.7 / 1000) / speed.value)
    (one,) = costs_of("docs/examples/images/Pulumi.images.yaml")
    assert one.speed.per_second is not None
    assert speeds["flux-schnell"] is not None
    assert speeds["flux-schnell"].value == pytest.approx(one.speed.per_second.value / 4)
    for name, each in by_model([dev]).items():
        usd = of[name].usd
        assert each.usd is not None
        assert usd is not None
        assert each.usd.value.value == pytest.approx(usd.value.value)


def test_a_distilled_schedule_sets_the_steps_of_a_unit_cost():
    (first,) = two_models(weights="flux.1-dev", sigmas=[1.0, 0.7, 0.3])
    assert first.of_further[0].speed.basis.startswith("1024x1024 in 3 steps; ")


def test_a_further_image_model_without_a_unit_cost_has_its_reason(
    capsys: pytest.CaptureFixture[str],
):
    found = two_models("ours", weights="ours")
    print_unit_costs(found, DEFAULT_TRAFFIC)
    reason = "the architecture of ours is not known"
    assert capsys.readouterr().out.endswith(f"no unit cost: ours: {reason}\n")
    further = unit_cost_as_json(found[0])["further_models"]["ours"]
    assert (further["usd"], further["basis"]) == (None, reason)
