"""Whether an engine can start: weights, and the KV cache of one longest request, on one device."""

import pytest

from planner.room import Layers, kv_cache_gib, room

LLAMA_8B = Layers(layers=32, kv_heads=8, head_size=128)


def test_the_kv_cache_of_a_llama_is_an_eighth_of_a_mebibyte_a_token() -> None:
    assert kv_cache_gib(8192, LLAMA_8B) == pytest.approx(1.0)
    assert kv_cache_gib(8192, LLAMA_8B, bits=8) == pytest.approx(0.5)
    assert kv_cache_gib(8192, LLAMA_8B, tensor=4) == pytest.approx(0.25)
    assert kv_cache_gib(8192, LLAMA_8B, stages=2) == pytest.approx(0.5)


def test_a_head_is_not_split_over_more_devices_than_there_are_heads() -> None:
    assert kv_cache_gib(8192, LLAMA_8B, tensor=16) == kv_cache_gib(8192, LLAMA_8B, tensor=8)


def test_layers_with_a_window_keep_no_more_than_it() -> None:
    windowed = Layers(layers=32, kv_heads=8, head_size=128, window_tokens=1024, windowed=16)
    assert kv_cache_gib(8192, windowed) == pytest.approx(0.5 + 0.5 / 8)
    assert kv_cache_gib(512, windowed) == pytest.approx(kv_cache_gib(512, LLAMA_8B))


def test_latent_attention_keeps_one_vector_on_every_device() -> None:
    latent = Layers(layers=61, kv_heads=0, head_size=0, latent=576)
    whole = 61 * 576 * 2 * 1024 / 2**30
    assert kv_cache_gib(1024, latent, tensor=8) == pytest.approx(whole)


def test_a_model_with_room_for_one_long_request_starts() -> None:
    found = room(
        parameters_billion=8.03, bits=16, context=16_384, kept=LLAMA_8B, device_gib=31.25, tensor=1
    )
    assert found.is_enough
    assert found.usable == pytest.approx(28.125)
    assert found.weights == pytest.approx(14.957, abs=1e-3)
    assert found.tokens == int((28.125 - found.weights) / found.context * 16_384)
    assert str(found) == "15.0 weights + 2.2 (beside them) <= 28.1 GiB a device"


def test_a_context_that_the_cache_cannot_hold_once_is_what_fails() -> None:
    found = room(
        parameters_billion=8.03, bits=16, context=131_072, kept=LLAMA_8B, device_gib=15.75, tensor=1
    )
    assert not found.is_enough
    assert str(found) == "15.0 weights + 16.0 (one request) > 14.2 GiB a device"
    assert found.tokens == 0


def test_a_model_without_a_kv_cache_needs_its_weights_and_a_share_beside_them() -> None:
    found = room(parameters_billion=16.9, bits=16, context=512, kept=None, device_gib=31.25)
    assert (found.context, found.tokens) == (0.0, 0)
    assert not found.is_enough
    assert room(
        parameters_billion=12.0, bits=16, context=512, kept=None, device_gib=31.25
    ).is_enough
