"""Step times compared with published servers, and their model sizes."""

import pytest

from gke_inference.sizing.memory import kv_token_bytes
from gke_inference.sizing.shapes import shape_in, shape_of
from planner.fit.chips import ACCELERATORS, accelerator
from planner.speed.roofline import (
    CostModel,
    StepLoad,
    experts_touched,
    padded_tokens,
    touched_billion,
)
from simulator.engine.kv_cache import KvCache
from simulator.engine.request import Request
from simulator.engine.scheduler import Scheduler


def offline_tokens_per_second(
    model: str, name: str, prompt: int, output: int, *, sequences: int, chips: int = 1
) -> float:
    """Return output tokens a second of an engine that is never without work."""
    cost = CostModel(shape_of(model), accelerator(name), chips)
    sched = Scheduler(KvCache(60_000, 16), 8192, sequences)
    for number in range(2 * sequences):
        tokens = range(number * 10_000, number * 10_000 + prompt)
        sched.add(Request(str(number), tokens, output, 0.0, output=[0] * output))
    seconds, generated = 0.0, 0
    while sched.running or sched.waiting:
        step = sched.schedule()
        seconds += cost.step_seconds(step.load())
        generated += len(sched.complete(step))
    return generated / seconds


# (model, accelerator, chips, tokens in, tokens out, concurrent, published output tokens/s)
PUBLISHED = [
    # MLPerf Inference v5.1, 5.1-0083: offline, vLLM 0.10; about 778 tokens in, at most 128 out
    ("llama-3.1-8b-fp8", "nvidia-h100-80gb", 1, 778, 128, 256, 5777),
    # AI-Hypercomputer/tpu-recipes @c8cfe2f, inference/trillium/vLLM/Llama3.x
    ("llama-3.3-70b", "tpu-v6e-slice", 8, 1000, 1000, 64, 2495),
    # a public report of vLLM TPU on ct6e-standard-1t, July 2026
    ("gemma-4-12b", "tpu-v6e-slice", 1, 128, 128, 1, 45),
]


@pytest.mark.parametrize("point", PUBLISHED, ids=lambda point: f"{point[0]} on {point[1]}")
def test_throughput_is_within_a_fifth_of_what_was_published(point):
    model, name, chips, prompt, output, concurrent, published = point
    found = offline_tokens_per_second(
        model, name, prompt, output, sequences=concurrent, chips=chips
    )
    assert found == pytest.approx(published, rel=0.2)


def test_a_single_stream_is_bound_by_memory():
    cost = CostModel(shape_of("llama-3.1-8b"), accelerator("nvidia-l4"), 1)
    step = cost.step_seconds(StepLoad(0, 1, 500, 500))
    assert step == pytest.approx(16.06e9 / (300e9 * 0.75), rel=0.05)


def test_a_step_of_nothing_takes_no_time():
    cost = CostModel(shape_of("llama-3.1-8b"), accelerator("cpu"), 1)
    assert cost.step_seconds(StepLoad(0, 0, 0)) == 0


@pytest.mark.parametrize("name", sorted(ACCELERATORS))
def test_more_work_never_takes_less_time(name: str):
    cost = CostModel(shape_of("qwen3-30b-a3b"), accelerator(name), 4)
    times = [cost.step_seconds(StepLoad(n, 8, 100 * n, 1000 * n)) for n in (0, 16, 512, 4096)]
    assert times == sorted(times)


def test_more_chips_are_faster_but_not_by_their_number():
    shape, chip = shape_of("llama-3.1-70b"), accelerator("nvidia-h100-80gb")
    one, four = (CostModel(shape, chip, n).step_seconds(StepLoad(0, 8, 8000)) for n in (1, 4))
    assert 2 < one / four < 4


def test_adapters_cost_something():
    cost = CostModel(shape_of("llama-3.1-8b"), accelerator("nvidia-l4"), 1)
    plain, with_two = (cost.step_seconds(StepLoad(0, 8, 800, adapters=n)) for n in (0, 2))
    assert with_two > plain


@pytest.mark.parametrize(
    ("name", "billion", "bits", "weights"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", 8.03, 16, 16.06),
        ("gs://weights/llama-3.3-70b", 70.6, 16, 141.2),
        ("Qwen/Qwen3-32B-FP8", 32.8, 8, 32.8),
        ("someone/novel-13B-AWQ", 13, 4, 6.5),
        ("/models/gemma-3-27b", 27.4, 16, 54.8),
    ],
)
def test_a_models_size_is_known_from_its_name(name: str, billion: float, bits: int, weights: float):
    shape = shape_of(name)
    assert (shape.parameters_billion, shape.bits) == (billion, bits)
    assert shape.weights_gb == pytest.approx(weights)


def test_kv_cache_of_llama_8b_takes_128_kib_a_token():
    assert kv_token_bytes(shape_of("llama-3.1-8b"), 16) == 131_072
    assert kv_token_bytes(shape_of("llama-3.1-8b"), 8) == 65_536


def test_a_mixture_of_experts_computes_fewer_parameters_than_it_holds():
    shape = shape_of("Qwen3-30B-A3B")
    assert (shape.parameters_billion, shape.active_billion) == (30.5, 3.3)
    assert shape_of("newcomer-60B-A5B").active_billion == 5


def test_the_quantization_flag_counts_more_than_the_name():
    assert shape_of("llama-3.1-8b", "fp8").bits == 8


def test_embedding_models_are_told_by_their_name():
    assert shape_of("BAAI/bge-m3").embedding
    assert shape_of("Qwen/Qwen3-Embedding-0.6B").embedding
    assert not shape_of("qwen3-8b").embedding


def test_a_name_without_a_size_is_refused():
    with pytest.raises(ValueError, match="size of a model must be in its name, got 'mymodel'"):
        shape_of("mymodel")


def test_a_models_own_config_gives_its_shape(tmp_path):
    (tmp_path / "config.json").write_text(
        '{"num_attention_heads": 16, "num_key_value_heads": 4, "hidden_size": 2048,'
        ' "num_hidden_layers": 10, "max_position_embeddings": 999}'
    )
    shape = shape_in(tmp_path, "novel-3b")
    assert shape is not None
    assert (shape.layers, shape.kv_heads, shape.head_dim, shape.context) == (10, 4, 128, 999)
    assert shape_in(tmp_path / "nowhere", "novel-3b") is None


def test_eighteen_tokens_touch_56_of_the_128_experts_of_gpt_oss():
    shape = shape_of("openai/gpt-oss-120b")
    assert round(experts_touched(shape, 18)) == 56
    assert touched_billion(shape, 1) == pytest.approx(shape.active_billion)
    assert touched_billion(shape, 8192) == pytest.approx(shape.parameters_billion)


def test_a_prompt_of_8192_tokens_takes_as_long_as_llm_d_measured():
    # llm-d guides/pd-disaggregation: peakPrefillThroughput 33821, gpt-oss-120b on one H200
    cost = CostModel(shape_of("openai/gpt-oss-120b"), accelerator("nvidia-h200-141gb"), 1)
    tokens = 8192
    found = cost.step_seconds(StepLoad(tokens, 0, tokens, tokens * tokens // 2))
    assert found == pytest.approx(tokens / 33_821, rel=0.05)


def test_half_of_a_tile_of_each_expert_is_padding():
    shape = shape_of("openai/gpt-oss-120b")
    assert padded_tokens(shape, 8192) == pytest.approx(128 * 128 / 2)
    assert padded_tokens(shape, 4) == pytest.approx(experts_touched(shape, 4) * 16 / 2)
    assert padded_tokens(shape_of("llama-3.1-8b"), 4) == 0
