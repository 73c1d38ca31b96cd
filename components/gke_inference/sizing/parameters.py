"""Parameter count of a model from its `config.json`: the sum of its matrices.

Norms and biases are omitted: a few hundred thousand out of billions. Field names are those of
Hugging Face configurations; latent attention and its mixture follow DeepSeek-V3's
`modeling_deepseek.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Counted:
    """Parameters, in billions."""

    total: float
    active: float
    """Parameters that one token passes through, including tables."""


def counted(text: Mapping[str, Any]) -> Counted:
    """Return the parameters of a language model.

    Args:
        text: its configuration, or the part of it that is about text.

    Raises:
        KeyError: a size is missing.
    """
    hidden, layers = int(text["hidden_size"]), int(text["num_hidden_layers"])
    tables = int(text["vocab_size"]) * hidden * (1 if text.get("tie_word_embeddings") else 2)
    attention = _latent(text) if text.get("kv_lora_rank") else _attention(text)
    experts = number(text, "num_local_experts", "n_routed_experts", "num_experts")
    if experts <= 1:
        whole = tables + layers * (attention + 3 * hidden * number(text, "intermediate_size"))
        return Counted(whole / 1e9, whole / 1e9)
    dense = min(layers, number(text, "first_k_dense_replace"))
    first = dense * 3 * hidden * number(text, "intermediate_size")
    one = 3 * hidden * number(text, "moe_intermediate_size", "intermediate_size")
    shared, router = number(text, "n_shared_experts"), hidden * experts
    fixed = tables + layers * attention + first
    active = max(1, number(text, "num_experts_per_tok"))
    total, through = (
        fixed + (layers - dense) * ((count + shared) * one + router) for count in (experts, active)
    )
    return Counted(total / 1e9, through / 1e9)


def number(config: Mapping[str, Any], *names: str) -> int:
    """Return the first of several sizes that a configuration has, or 0 if it has none."""
    return next((int(config[name]) for name in names if config.get(name)), 0)


def head_size(text: Mapping[str, Any]) -> int:
    """Return the size of an attention head; for latent attention, that of a query."""
    if text.get("kv_lora_rank") and text.get("qk_nope_head_dim"):
        return int(text["qk_nope_head_dim"]) + int(text.get("qk_rope_head_dim") or 0)
    return int(text.get("head_dim") or int(text["hidden_size"]) // int(text["num_attention_heads"]))


def _attention(text: Mapping[str, Any]) -> int:
    heads = int(text["num_attention_heads"])
    kv_heads = int(text.get("num_key_value_heads") or heads)
    return int(text["hidden_size"]) * head_size(text) * 2 * (heads + kv_heads)


def _latent(text: Mapping[str, Any]) -> int:
    """Return the matrices of a layer of multi-head latent attention.

    Queries have their own rank, if set. Keys and values go through the latent vector, with the
    rotated part of a key next to it. Values have a size of their own.
    """
    hidden, heads = int(text["hidden_size"]), int(text["num_attention_heads"])
    rank, rotary = int(text["kv_lora_rank"]), int(text.get("qk_rope_head_dim") or 64)
    plain = number(text, "qk_nope_head_dim") or hidden // heads
    value = number(text, "v_head_dim") or plain
    inner = heads * (plain + rotary)
    ranked = number(text, "q_lora_rank")
    queries = hidden * ranked + ranked * inner if ranked else hidden * inner
    keys = hidden * (rank + rotary) + rank * heads * (plain + value)
    return queries + keys + heads * value * hidden
