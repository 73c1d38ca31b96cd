"""Whether a model fits: the arithmetic of memory, and what a refusal says."""

from dataclasses import replace
from typing import Any

import pytest

from gke_inference.catalogue.rungs import check_rung
from gke_inference.sizing.architectures import Architecture, find
from gke_inference.sizing.memory import (
    GIB,
    Loaded,
    check_fit,
    device_gib,
    kv_cache_gib,
    kv_copies,
    loaded,
    room,
    split,
    weights_gib,
)
from gke_inference.sizing.shapes import ModelShape, shape
from workloads.kernels.shapes import HBM_GIB


def architecture(name: str) -> Architecture:
    found = find(name)
    assert found is not None
    return found


LLAMA_8B = shape(architecture("llama-3.1-8b"))


def rung(accelerator: str, shape: str | int, hosts: int = 1):
    field: dict[str, Any] = {"topology": shape} if isinstance(shape, str) else {"count": shape}
    if hosts > 1:
        field |= {"hosts": hosts, "network": "tcp"}
    args: Any = {"accelerator": accelerator, "provisioning": "spot", **field}
    return check_rung(args)


def known(name: str, context: int = 8192, bits: float = 16) -> Loaded:
    kept = shape(architecture(name))
    return Loaded(kept.parameters_billion, bits, context, kept)


def test_weights_are_parameters_times_bits():
    assert weights_gib(8.03, 16) == pytest.approx(14.96, abs=0.01)
    assert weights_gib(70.6, 8) == pytest.approx(65.75, abs=0.01)
    with pytest.raises(ValueError, match="must be positive, got 0 billion"):
        weights_gib(0, 16)


def test_the_kv_cache_of_a_llama_is_an_eighth_of_a_mebibyte_a_token():
    assert kv_cache_gib(8192, LLAMA_8B) == pytest.approx(1.0)
    assert kv_cache_gib(8192, LLAMA_8B, bits=8) == pytest.approx(0.5)
    assert kv_cache_gib(8192, LLAMA_8B, tensor=4) == pytest.approx(0.25)
    assert kv_cache_gib(8192, LLAMA_8B, stages=2) == pytest.approx(0.5)


def test_a_head_is_not_split_over_more_devices_than_there_are_heads():
    assert kv_cache_gib(8192, LLAMA_8B, tensor=16) == kv_cache_gib(8192, LLAMA_8B, tensor=8)
    assert kv_copies(LLAMA_8B, 16) == 2
    assert kv_copies(LLAMA_8B, 8) == kv_copies(LLAMA_8B, 1) == 1


def test_layers_with_a_window_keep_no_more_than_it():
    windowed = replace(LLAMA_8B, window=(1024, 16))
    assert kv_cache_gib(8192, windowed) == pytest.approx(0.5 + 0.5 / 8)
    assert kv_cache_gib(512, windowed) == pytest.approx(kv_cache_gib(512, LLAMA_8B))


def test_latent_attention_keeps_one_vector_on_every_device():
    latent = shape(architecture("deepseek-v3"))
    whole = 61 * 576 * 2 * 1024 / GIB
    assert kv_cache_gib(1024, latent, tensor=8) == pytest.approx(whole)


def test_a_device_has_what_a_program_may_have_of_it():
    # the compiler of the kernels says the same, in an environment without the catalogue
    assert {name: device_gib(f"tpu-{name}") for name in HBM_GIB} == HBM_GIB
    assert device_gib("tpu7x") == 96
    assert device_gib("nvidia-h100-80gb") == 79.18


@pytest.mark.parametrize(
    ("name", "bits", "weights_gib", "cache_gib"),
    [
        ("llama-3.1-8b", 16, 15.0, 54.93),
        ("qwen3-30b-a3b", 16, 56.93, 10.78),
        ("llama-3.1-8b", 8, 8.54, 61.36),
        ("qwen3-32b", 8, 32.1, 37.29),
    ],
)
def test_weights_and_room_for_kv_cache_are_what_vllm_had_on_an_h100(
    name: str, bits: float, weights_gib: float, cache_gib: float
):
    found = room(known(name, 20_480, bits), "nvidia-h100-80gb", tensor=1)
    assert found.weights == pytest.approx(weights_gib, rel=0.01)
    assert found.left == pytest.approx(cache_gib, rel=0.01)


def test_devices_share_the_tables_that_keep_16_bits():
    one, two = (room(known("llama-3.1-8b", bits=8), "nvidia-l4", tensor=n) for n in (1, 2))
    assert two.weights == pytest.approx(one.weights / 2)


def test_room_is_weights_reserve_and_one_request():
    found = room(known("llama-3.1-8b", 16_384), "tpu-v6e", tensor=1)
    assert found.usable == pytest.approx(28.125)
    assert found.weights == pytest.approx(14.957, abs=1e-3)
    assert found.reserve == pytest.approx((1e9 + 8192 * 4096 * 16) / GIB)
    assert found.context == pytest.approx(2.0)
    assert found.tokens == int(found.left / found.context * 16_384)
    assert found.problem is None


def test_a_context_that_the_cache_cannot_hold_once_is_what_fails():
    found = room(known("llama-3.1-8b", 131_072), "tpu-v6e", tensor=1)
    assert found.problem == (
        "needs 32.4 GiB on each device (15.0 GiB of weights, 1.4 of runtime and activations, "
        "16.0 for one request), has 28.1 GiB"
    )


def test_of_a_model_of_unknown_layers_a_share_of_its_weights_is_asked_for():
    assert room(Loaded(12.0, 16, 512), "tpu-v6e", tensor=1).problem is None
    found = room(Loaded(16.9, 16, 512), "tpu-v6e", tensor=1)
    assert found.needed == pytest.approx(1.15 * found.weights)
    assert found.problem is not None
    assert (found.context, found.tokens) == (0.0, 0)


# What GoogleCloudPlatform/accelerated-platforms runs: model, bits, accelerator, shape.
RUNS = [
    ("qwen3-32b", 16, "nvidia-h100-80gb", 1),
    ("llama-3.3-70b", 16, "nvidia-h100-80gb", 4),
    ("qwen3-32b", 16, "nvidia-l4", 8),
    ("llama-3.3-70b", 16, "nvidia-rtx-pro-6000", 2),
    ("qwen3-32b", 16, "tpu-v6e", "2x2"),
    ("gemma-3-27b", 16, "tpu-v6e", "2x4"),
    ("qwen3-32b", 16, "tpu-v5e", "2x4"),
    ("llama-3.1-8b", 16, "nvidia-l4", 1),
]


@pytest.mark.parametrize(("name", "bits", "accelerator", "shape"), RUNS)
def test_models_that_are_known_to_run_fit(name: str, bits: int, accelerator: str, shape: str | int):
    assert check_fit(rung(accelerator, shape), known(name, 8192, bits)) is None


def test_a_model_that_does_not_fit_is_refused_with_the_numbers_and_what_would_hold_it():
    reason = check_fit(rung("tpu-v6e", "2x2"), Loaded(70.6, 16))
    assert reason == (
        "needs 37.8 GiB on each of 4 devices (32.9 GiB of weights plus 15%), "
        "tpu-v6e 2x2 has 28.1 GiB (90% of 31.25); 2x4 would hold it"
    )


def test_a_gpu_that_is_too_small_is_told_the_count_that_is_not():
    reason = check_fit(rung("nvidia-l4", 1), known("qwen3-32b"))
    assert reason is not None
    assert reason.endswith("count 4 would hold it")


def test_nothing_is_suggested_where_no_shape_would_do():
    reason = check_fit(rung("nvidia-l4", 8), Loaded(405, 16))
    assert reason is not None
    assert reason.endswith("(90% of 22.49)")


def test_heads_that_devices_cannot_share_evenly_are_refused():
    odd = Loaded(1.0, 16, 1024, shape(architecture("gemma-3-1b")))
    assert check_fit(rung("nvidia-l4", 8), odd) == (
        "has 4 attention heads, which 8 devices cannot share evenly"
    )
    ten = known("phi-4")
    assert check_fit(rung("nvidia-l4", 4), ten) == (
        "has 10 KV heads, which 4 devices cannot share evenly"
    )
    assert check_fit(rung("tpu-v6e", "2x2"), ten) is None  # heads of the cache are padded


def test_a_copy_on_some_of_the_devices_needs_more_of_each():
    four = rung("nvidia-h100-80gb", 4)
    assert check_fit(four, known("llama-3.3-70b")) is None
    assert check_fit(four, known("llama-3.3-70b"), 2) is not None


def test_hosts_of_gpus_are_stages_and_those_of_a_slice_are_not():
    assert split(rung("nvidia-h100-80gb", 8, hosts=2)) == (8, 2)
    assert split(rung("tpu-v6e", "4x4")) == (16, 1)
    assert split(rung("nvidia-l4", 4), 2) == (2, 1)


def test_a_models_layers_are_found_by_its_files_and_not_by_its_bucket():
    def layers(weights: str, name: str) -> ModelShape | None:
        found = loaded(weights, name, parameters_billion=1, bits=16, context=1024)
        return found.shape

    assert layers("gs://llama-3.3-70b/ours", "chat") is None
    assert layers("gs://bucket/llama-3.1-8b", "chat") == LLAMA_8B
    assert layers("ours", "llama-3.1-8b") == LLAMA_8B
