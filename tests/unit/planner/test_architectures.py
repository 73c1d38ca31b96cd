"""Architectures: the table, and what a config.json gives."""

import json
import re

import pytest

from gke_inference.sizing.architectures import KINDS, Architecture, find, known, of_config
from gke_inference.sizing.memory import kv_token_bytes
from gke_inference.sizing.parameters import counted
from gke_inference.sizing.shapes import shape, shape_of


def test_every_model_has_a_source_and_sizes_that_make_sense():
    models = known()
    assert len(models) >= 25
    assert {model.kind for model in models} == set(KINDS)
    for model in models:
        assert model.source
        assert 0 < model.active_billion <= model.parameters_billion or model.active_billion == 0
        if not model.is_diffusion:
            assert min(model.layers, model.hidden, model.vocab, model.context) > 0
            assert model.mla or model.heads % model.kv_heads == 0
            assert len(model.window) in (0, 2)


@pytest.mark.parametrize(
    "model",
    [
        model
        for model in known()
        if model.kind == "dense"
        and re.fullmatch(r"config \S+", model.source)
        and model.name != "gpt-j-6b"  # two matrices in a feed-forward layer
    ],
    ids=lambda model: model.name,
)
def test_a_model_has_the_parameters_of_its_sizes_with_one_or_two_tables(model: Architecture):
    sizes = {
        "hidden_size": model.hidden,
        "num_hidden_layers": model.layers,
        "vocab_size": model.vocab,
        "tie_word_embeddings": model.tied,
        "num_attention_heads": model.heads,
        "num_key_value_heads": model.kv_heads,
        "head_dim": model.head_dim,
        "intermediate_size": model.ffn,
    }
    parameters = counted(sizes).total + model.vision
    assert parameters == pytest.approx(model.parameters_billion, rel=0.015)


@pytest.mark.parametrize("name", [model.name for model in known()])
def test_a_model_is_found_by_its_own_name(name: str):
    found = find(name)
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("gs://acme/qwen3-32b", "qwen3-32b"),
        ("deepseek-ai/DeepSeek-R1-Distill-Llama-70B", "deepseek-r1-distill-llama-70b"),
        ("deepseek-ai/DeepSeek-R1-0528", "deepseek-v3"),
        ("Qwen/Qwen2.5-VL-7B-Instruct", "qwen2.5-vl-7b"),
        ("black-forest-labs/FLUX.1-schnell", "flux.1-schnell"),
    ],
)
def test_a_model_is_found_by_the_name_of_its_repository(name: str, expected: str):
    found = find(name)
    assert found is not None
    assert found.name == expected


def test_latent_attention_keeps_one_vector_a_token_and_layer():
    assert kv_token_bytes(shape_of("deepseek-r1"), 16) == 61 * 576 * 2


def test_a_diffusion_model_has_no_shape_of_text():
    flux = find("flux.1-dev")
    assert flux is not None
    with pytest.raises(ValueError, match="must be a text model, got flux"):
        shape(flux)


CONFIG = {
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "max_position_embeddings": 131072,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "torch_dtype": "bfloat16",
    "vocab_size": 128256,
}


def of(tmp_path, **changes):
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**CONFIG, **changes}))
    return of_config(file)


def test_parameters_are_reckoned_from_a_config(tmp_path):
    assert of(tmp_path).parameters_billion == pytest.approx(8.03, rel=0.01)


def test_a_mixture_in_a_config_has_active_parameters(tmp_path):
    made = of(tmp_path, num_local_experts=8, num_experts_per_tok=2, vocab_size=32000)
    assert made.kind == "moe"
    assert made.parameters_billion == pytest.approx(46.7, rel=0.01)
    assert made.active_billion == pytest.approx(12.9, rel=0.01)


DEEPSEEK_V3 = {  # deepseek-ai/DeepSeek-V3, config.json
    "first_k_dense_replace": 3,
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "kv_lora_rank": 512,
    "max_position_embeddings": 163840,
    "moe_intermediate_size": 2048,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_attention_heads": 128,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 61,
    "num_key_value_heads": 128,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "quantization_config": {"quant_method": "fp8"},
    "tie_word_embeddings": False,
    "v_head_dim": 128,
    "vocab_size": 129280,
}
KIMI_K2 = {  # moonshotai/Kimi-K2-Instruct, config.json
    **DEEPSEEK_V3,
    "first_k_dense_replace": 1,
    "n_routed_experts": 384,
    "num_attention_heads": 64,
    "num_key_value_heads": 64,
    "vocab_size": 163840,
}


@pytest.mark.parametrize(("config", "name"), [(DEEPSEEK_V3, "deepseek-v3"), (KIMI_K2, "kimi-k2")])
def test_latent_attention_and_its_mixture_have_the_parameters_of_the_card(tmp_path, config, name):
    made, published = of(tmp_path, **config), find(name)
    assert published is not None
    assert made.parameters_billion == pytest.approx(published.parameters_billion, rel=0.001)
    assert made.active_billion == pytest.approx(published.active_billion, rel=0.03)
    assert shape(made).kv_heads == shape(published).kv_heads
    assert shape(made).head_dim == shape(published).head_dim
    assert (made.bits, made.mla) == (published.bits, published.mla)


def test_a_config_says_its_windows_latents_and_precision(tmp_path):
    assert of(tmp_path, sliding_window=1024, sliding_window_pattern=4).window == (1024, 24)
    assert of(tmp_path, sliding_window=4096, use_sliding_window=False).window == ()
    assert of(tmp_path, kv_lora_rank=512, qk_rope_head_dim=64).mla == (512, 64)
    assert of(tmp_path, quantization_config={"quant_method": "fp8"}).bits == 8


def test_a_config_without_a_size_is_refused_by_its_name(tmp_path):
    file = tmp_path / "config.json"
    file.write_text('{"hidden_size": 1}')
    with pytest.raises(ValueError, match=r"config\.json: must have the sizes"):
        of_config(file)
