"""A `config.json` for each language model of the sizing table, for the real vLLM.

It has what vLLM needs to make its configuration without weights: the class of the model and its
sizes. Of a model that also reads images it describes the language model, which decides how heads
are shared and how long a request may be: vLLM's classes for images need torchvision, whose builds
for processors are not on PyPI.
"""

import re
from typing import Any, Final

from gke_inference.sizing.architectures import Architecture

JsonObject = dict[str, Any]

_CLASSES: Final[tuple[tuple[str, str, str], ...]] = (
    ("llama-4", "Llama4ForCausalLM", "llama4_text"),
    ("llama", "LlamaForCausalLM", "llama"),
    ("qwen3.*-a[0-9]+b", "Qwen3MoeForCausalLM", "qwen3_moe"),
    ("qwen3", "Qwen3ForCausalLM", "qwen3"),
    ("qwen2|qwen-", "Qwen2ForCausalLM", "qwen2"),
    ("gemma-3", "Gemma3ForCausalLM", "gemma3_text"),
    ("gemma-2", "Gemma2ForCausalLM", "gemma2"),
    ("deepseek-v3|kimi-k2", "DeepseekV3ForCausalLM", "deepseek_v3"),
    ("gpt-oss", "GptOssForCausalLM", "gpt_oss"),
    ("mixtral", "MixtralForCausalLM", "mixtral"),
    ("mistral", "MistralForCausalLM", "mistral"),
    ("phi", "Phi3ForCausalLM", "phi3"),
    ("gpt-j", "GPTJForCausalLM", "gptj"),
    ("bge-m3", "XLMRobertaModel", "xlm-roberta"),
)
"""Pattern of a model's name, class, and `model_type`; the first match counts."""
_GPT_J: Final = {"n_embd": "hidden", "n_layer": "layers", "n_head": "heads"}


def has_config(model: Architecture) -> bool:
    """Return whether the table has a language model's sizes as its publisher gives them."""
    return not model.is_diffusion and model.is_published


def config_of(model: Architecture) -> JsonObject:
    """Return the content of a model's `config.json`.

    Raises:
        LookupError: The class of the model is not known here.
    """
    name, kind = _class_of(model.name)
    config: JsonObject = {
        "architectures": [name],
        "head_dim": model.head_dim or None,
        "hidden_size": model.hidden,
        "intermediate_size": model.ffn,
        "max_position_embeddings": model.context,
        "model_type": kind,
        "num_attention_heads": model.heads,
        "num_hidden_layers": model.layers,
        "num_key_value_heads": model.kv_heads or model.heads,
        "tie_word_embeddings": model.tied,
        "torch_dtype": "bfloat16",
        "vocab_size": model.vocab,
    }
    if model.experts:
        experts = "n_routed_experts" if model.mla else "num_local_experts"
        config |= {
            experts: model.experts,
            "moe_intermediate_size": model.ffn,
            "num_experts": model.experts,
            "num_experts_per_tok": model.active_experts,
        }
    if model.mla:
        rank, rotary = model.mla
        config |= {"kv_lora_rank": rank, "qk_rope_head_dim": rotary, "head_dim": None}
    if kind == "xlm-roberta":
        config |= {"position_embedding_type": "absolute"}
    if kind == "gptj":
        config |= {key: getattr(model, field) for key, field in _GPT_J.items()}
        config |= {"n_positions": model.context, "rotary_dim": 64}
    return {key: value for key, value in config.items() if value is not None}


def _class_of(name: str) -> tuple[str, str]:
    for pattern, found, kind in _CLASSES:
        if re.search(rf"(?:^|-)(?:{pattern})", name):
            return found, kind
    raise LookupError(f"no class of vLLM is known for {name}")
