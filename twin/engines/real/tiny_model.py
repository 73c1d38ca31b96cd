"""A Llama model of a million parameters and LoRA adapters for it, generated reproducibly.

The generator needs only numpy: the weights are random, the tokenizer has a token for each byte, and
both are written in the formats that vLLM reads (safetensors, `tokenizer.json`). The generated text
is noise; shapes, flags, metrics and errors are those of any Llama model.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from gke_inference.sizing.shapes import SAMPLE
from twin.engines.real.arguments import CONTEXT

LAYERS, HIDDEN, MIDDLE, HEADS, KV_HEADS, HEAD_DIM = 2, 256, 512, 4, 2, 64

_SPECIAL = ("<s>", "</s>", "<pad>")
_SEED = 20_261_121
_Tensors = dict[str, "np.ndarray[Any, np.dtype[np.float32]]"]


def byte_symbols() -> list[str]:
    """Return the 256 characters with which byte-level tokenizers represent bytes, in byte order."""
    plain = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    named = {byte: chr(byte) for byte in plain}
    named |= {byte: chr(256 + at) for at, byte in enumerate(others)}
    return [named[byte] for byte in range(256)]


def write_model(folder: Path) -> Path:
    """Write the model to a folder unless it is already there, and return the folder."""
    if (folder / "model.safetensors").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = {token: at for at, token in enumerate((*_SPECIAL, *byte_symbols()))}
    _write_json(folder / "config.json", _config(len(vocabulary)))
    _write_json(folder / "tokenizer.json", _tokenizer(vocabulary))
    _write_json(folder / "tokenizer_config.json", _tokenizer_config())
    _write_json(folder / "generation_config.json", {"bos_token_id": 0, "eos_token_id": 1})
    _write_tensors(folder / "model.safetensors", _weights(len(vocabulary)))
    return folder


def write_adapter(folder: Path, *, rank: int = 8, seed: int = 1) -> Path:
    """Write a LoRA adapter of the model to a folder and return the folder.

    Args:
        folder: folder to create.
        rank: rank of its matrices.
        seed: random seed; different seeds give different adapters.
    """
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(seed)
    tensors: _Tensors = {}
    for layer in range(LAYERS):
        for name, width in (("q_proj", HEADS * HEAD_DIM), ("v_proj", KV_HEADS * HEAD_DIM)):
            path = f"base_model.model.model.layers.{layer}.self_attn.{name}"
            tensors[f"{path}.lora_A.weight"] = _normal(random, rank, HIDDEN, scale=0.3)
            tensors[f"{path}.lora_B.weight"] = _normal(random, width, rank, scale=0.3)
    _write_tensors(folder / "adapter_model.safetensors", tensors)
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": "tiny",
        "r": rank,
        "lora_alpha": 2 * rank,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": ["q_proj", "v_proj"],
        "inference_mode": True,
    }
    _write_json(folder / "adapter_config.json", config)
    return folder


def _normal(random: np.random.Generator, *shape: int, scale: float) -> Any:
    return (random.standard_normal(shape) * scale).astype(np.float32)


def _weights(vocabulary: int) -> _Tensors:
    random = np.random.default_rng(_SEED)

    def matrix(rows: int, columns: int) -> Any:
        return _normal(random, rows, columns, scale=columns**-0.5)

    ones = np.ones(HIDDEN, np.float32)
    out: _Tensors = {"model.embed_tokens.weight": matrix(vocabulary, HIDDEN)}
    for layer in range(LAYERS):
        at = f"model.layers.{layer}"
        out |= {
            f"{at}.input_layernorm.weight": ones,
            f"{at}.post_attention_layernorm.weight": ones,
            f"{at}.self_attn.q_proj.weight": matrix(HEADS * HEAD_DIM, HIDDEN),
            f"{at}.self_attn.k_proj.weight": matrix(KV_HEADS * HEAD_DIM, HIDDEN),
            f"{at}.self_attn.v_proj.weight": matrix(KV_HEADS * HEAD_DIM, HIDDEN),
            f"{at}.self_attn.o_proj.weight": matrix(HIDDEN, HEADS * HEAD_DIM),
            f"{at}.mlp.gate_proj.weight": matrix(MIDDLE, HIDDEN),
            f"{at}.mlp.up_proj.weight": matrix(MIDDLE, HIDDEN),
            f"{at}.mlp.down_proj.weight": matrix(HIDDEN, MIDDLE),
        }
    return {**out, "model.norm.weight": ones, "lm_head.weight": matrix(vocabulary, HIDDEN)}


def _config(vocabulary: int) -> dict[str, Any]:
    return {
        SAMPLE: True,
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": vocabulary,
        "hidden_size": HIDDEN,
        "intermediate_size": MIDDLE,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "max_position_embeddings": CONTEXT,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "rope_theta": 500_000.0,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    }


def _tokenizer(vocabulary: dict[str, int]) -> dict[str, Any]:
    added = [
        {"id": at, "content": token, "special": True, "single_word": False}
        | {"lstrip": False, "rstrip": False, "normalized": False}
        for at, token in enumerate(_SPECIAL)
    ]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {**byte_level, "use_regex": False},
        "post_processor": None,
        "decoder": {**byte_level, "use_regex": True},
        "model": {"type": "BPE", "vocab": vocabulary, "merges": [], "byte_fallback": False},
    }


def _tokenizer_config() -> dict[str, Any]:
    turns = "{% for m in messages %}<{{ m['role'] }}>\n{{ m['content'] }}\n{% endfor %}"
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "pad_token": "<pad>",
        "model_max_length": CONTEXT,
        "chat_template": turns + "<assistant>\n",
    }


def _write_json(file: Path, content: dict[str, Any]) -> None:
    file.write_text(json.dumps(content, indent=1))


def _write_tensors(file: Path, tensors: _Tensors) -> None:
    """Write a safetensors file of bfloat16: a length, a JSON header, and the numbers."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    blobs: list[bytes] = []
    offset = 0
    for name, tensor in sorted(tensors.items()):
        # a bfloat16 is the upper half of a float32
        blob = (tensor.view(np.uint32) >> 16).astype("<u2").tobytes()
        header[name] = {
            "dtype": "BF16",
            "shape": list(tensor.shape),
            "data_offsets": [offset, offset + len(blob)],
        }
        offset += len(blob)
        blobs.append(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    partial = file.with_suffix(".partial")
    partial.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(blobs))
    partial.replace(file)
