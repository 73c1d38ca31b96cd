"""Sizes of models: what a step reads and computes, and what a token of KV cache takes.

Architectures of well-known models are the figures of their published `config.json`; of others, the
size is read from the name and the shape is estimated from the size.
"""

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path

_SIZE = re.compile(r"(?<![\d.a-z])(\d+(?:\.\d+)?)\s*([bm])(?![a-z])", re.IGNORECASE)
_ACTIVE = re.compile(r"(?<![a-z])a(\d+(?:\.\d+)?)b(?![a-z])", re.IGNORECASE)
_EMBEDDING = re.compile(r"embed|(?<![a-z])bge|(?<![a-z])gte|(?<![a-z])e5-|minilm", re.IGNORECASE)
_BITS = (
    (re.compile(r"fp4|int4|w4a|awq|gptq|4bit|q4", re.IGNORECASE), 4),
    (re.compile(r"fp8|int8|w8a|8bit|q8", re.IGNORECASE), 8),
)
_QUANTIZED_BITS = {"awq": 4, "gptq": 4, "bitsandbytes": 4, "mxfp4": 4, "modelopt_fp4": 4, "fp8": 8}


@dataclass(frozen=True)
class ModelShape:
    """A transformer, as far as its cost goes."""

    parameters_billion: float
    active_billion: float
    """Parameters that one token passes through: fewer than all in a mixture of experts."""
    layers: int
    kv_heads: int
    head_dim: int
    context: int
    """Longest sequence the model was made for, in tokens."""
    bits: int = 16
    """Bits of a weight."""
    embedding: bool = False
    """Whether it answers with vectors instead of text."""
    width: int = 0
    """Size of the hidden state; 0: four times the KV heads' width, as in dense models."""
    query_width: int = 0
    """Width of all query heads of a layer together, as attention computes; 0: as `width`."""
    looked_up_billion: float = 0.0
    """Parameters of tables that a token takes a row of and nobody reads whole."""

    @property
    def weights_gb(self) -> float:
        """Size of the weights, in 10^9 bytes."""
        return self.parameters_billion * self.bits / 8

    @property
    def is_mixture(self) -> bool:
        """Whether a token passes through part of the parameters only."""
        return self.active_billion < self.parameters_billion - self.looked_up_billion

    @property
    def hidden(self) -> int:
        """Size of the hidden state."""
        return self.width or self.kv_heads * self.head_dim * 4

    def kv_bytes_per_token(self, kv_bits: int) -> int:
        """Return the bytes one token takes in the KV cache, over all layers."""
        return 2 * self.layers * self.kv_heads * self.head_dim * kv_bits // 8


def _shape(size: float, layers: int, heads: int, dim: int, context: int) -> ModelShape:
    return ModelShape(size, size, layers, heads, dim, context)


# (pattern of the name, shape); the first that matches counts
_KNOWN: tuple[tuple[str, ModelShape], ...] = (
    (r"llama-?3\.[13].*405b", _shape(405.9, 126, 8, 128, 131_072)),
    (r"llama-?3(\.[0-9])?.*70b", _shape(70.6, 80, 8, 128, 131_072)),
    (r"llama-?3(\.[0-9])?.*8b", _shape(8.03, 32, 8, 128, 131_072)),
    (r"llama-?3\.2.*3b", _shape(3.21, 28, 8, 128, 131_072)),
    (r"llama-?3\.2.*1b", _shape(1.24, 16, 8, 64, 131_072)),
    (r"qwen-?3.*30b-a3b", ModelShape(30.5, 3.3, 48, 4, 128, 40_960, width=2048, query_width=4096)),
    (r"qwen-?3.*235b-a22b", ModelShape(235, 22, 94, 4, 128, 40_960, width=4096, query_width=8192)),
    (r"qwen-?3.*32b", _shape(32.8, 64, 8, 128, 40_960)),
    (r"qwen-?3.*14b", _shape(14.8, 40, 8, 128, 40_960)),
    (r"qwen-?3.*8b", _shape(8.2, 36, 8, 128, 40_960)),
    (r"qwen-?3.*4b", _shape(4.0, 36, 8, 128, 40_960)),
    (r"qwen-?3.*0\.6b", _shape(0.6, 28, 8, 128, 32_768)),
    (r"gemma-?3.*27b", _shape(27.4, 62, 16, 128, 131_072)),
    (r"gemma-?3.*12b", _shape(12.2, 48, 8, 256, 131_072)),
    (r"gemma-?3.*4b", _shape(4.3, 34, 4, 256, 131_072)),
    (r"gemma-?2.*27b", _shape(27.2, 46, 16, 128, 8_192)),
    (r"gemma-?2.*2b", _shape(2.6, 26, 4, 256, 8_192)),
    (r"gemma-?4.*26b-a4b", ModelShape(26.0, 4.0, 30, 8, 256, 131_072)),
    (r"gemma-?4.*e2b", ModelShape(5.1, 2.3, 30, 2, 256, 131_072, looked_up_billion=2.8)),
    (r"gemma-?4.*e4b", ModelShape(8.0, 4.5, 35, 2, 256, 131_072, looked_up_billion=3.5)),
    (
        r"deepseek-(r1|v3)",
        ModelShape(671.0, 37.0, 61, 1, 288, 131_072, bits=8, width=7168, query_width=69_632),
    ),
    (
        r"llama-?4.*maverick",
        ModelShape(400.0, 17.0, 48, 8, 128, 131_072, width=5120, query_width=5120),
    ),
    (
        r"llama-?4.*scout",
        ModelShape(109.0, 17.0, 48, 8, 128, 131_072, width=5120, query_width=5120),
    ),
    (
        r"qwen-?3.*480b-a35b",
        ModelShape(480.0, 35.0, 62, 8, 128, 262_144, width=6144, query_width=12_288),
    ),
    (
        r"qwen-?3\.5.*397b-a17b",
        ModelShape(397.0, 17.0, 15, 2, 256, 262_144, width=4096, query_width=8192),
    ),
    (r"llama-?2.*70b", _shape(69.0, 80, 8, 128, 4_096)),
    (
        r"gpt-oss.*120b",
        ModelShape(116.8, 5.1, 36, 8, 64, 131_072, bits=4, width=2880, query_width=4096),
    ),
    (
        r"gpt-oss.*20b",
        ModelShape(20.9, 3.6, 24, 8, 64, 131_072, bits=4, width=2880, query_width=4096),
    ),
    (r"mistral.*7b", _shape(7.25, 32, 8, 128, 32_768)),
    (r"mixtral.*8x7b", ModelShape(46.7, 12.9, 32, 8, 128, 32_768)),
    (r"bge-m3", _shape(0.57, 24, 16, 64, 8_192)),
)


def shape_of(model: str, quantization: str | None = None) -> ModelShape:
    """Return the shape of a model by its name or path.

    Args:
        model: such as `meta-llama/Llama-3.1-8B-Instruct`, `gs://bucket/qwen3-32b` or a path.
        quantization: vLLM's `--quantization`, where given.

    Raises:
        ValueError: the name says nothing of the size.
    """
    name = model.rstrip("/")
    lowered = name.lower()
    shape = next((known for pattern, known in _KNOWN if re.search(pattern, lowered)), None)
    if shape is None:
        shape = _estimate(name)
    bits = _QUANTIZED_BITS.get(quantization or "", 0)
    for pattern, found in _BITS:
        if not bits and pattern.search(name):
            bits = found
    return replace(shape, bits=bits or shape.bits, embedding=_EMBEDDING.search(name) is not None)


def _estimate(name: str) -> ModelShape:
    sizes = [
        float(number) * (1.0 if unit in "bB" else 1e-3)
        for number, unit in _SIZE.findall(name.rsplit("/", 1)[-1])
    ] or [float(number) * (1.0 if unit in "bB" else 1e-3) for number, unit in _SIZE.findall(name)]
    if not sizes:
        if _EMBEDDING.search(name):
            sizes = [0.3]
        else:
            raise ValueError(f"the size of a model must stand in its name, got {name!r}")
    size = sizes[-1]
    active = _ACTIVE.search(name)
    # depth and width of published dense models grow with the cube root of their size
    layers = max(6, round(16 * size ** (1 / 3)))
    return ModelShape(
        parameters_billion=size,
        active_billion=float(active.group(1)) if active else size,
        layers=layers,
        kv_heads=8,
        head_dim=128 if size >= 3 else 64,
        context=32_768,
    )


def shape_in(directory: Path, model: str, quantization: str | None = None) -> ModelShape | None:
    """Return the shape that a model folder's own `config.json` gives, or None where there is none.

    The size still comes from the name: the file does not say it.
    """
    try:
        config = json.loads((directory / "config.json").read_text())
        heads = int(config["num_attention_heads"])
        return replace(
            shape_of(model, quantization),
            layers=int(config["num_hidden_layers"]),
            kv_heads=int(config.get("num_key_value_heads", heads)),
            head_dim=int(config.get("head_dim", int(config["hidden_size"]) // heads)),
            context=int(config["max_position_embeddings"]),
        )
    except (OSError, ValueError, KeyError):
        return None
