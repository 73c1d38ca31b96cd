"""Model shapes: what a step reads and computes, and the KV cache size of a token.

Architectures of well-known models are in data/models.yaml. For others, the size is taken from the
name and the shape is estimated from the size.
"""

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path

from gke_inference.sizing.architectures import Architecture, find, find_model

_SIZE = re.compile(r"(?<![\d.a-z])(\d+(?:\.\d+)?)\s*([bm])(?![a-z])", re.IGNORECASE)
_ACTIVE = re.compile(r"(?<![a-z])a(\d+(?:\.\d+)?)b(?![a-z])", re.IGNORECASE)
_EMBEDDING = re.compile(r"embed|(?<![a-z])bge|(?<![a-z])gte|(?<![a-z])e5-|minilm", re.IGNORECASE)
_BITS = (
    (re.compile(r"fp4|int4|w4a|awq|gptq|4bit|q4", re.IGNORECASE), 4),
    (re.compile(r"fp8|int8|w8a|8bit|q8", re.IGNORECASE), 8),
)
_VERSION = re.compile(r"/[0-9a-f]{12}$")
"""Default version names of `models push`: digits that could be mistaken for a size."""
SAMPLE = "gke_inference_sample"
"""Key in the `config.json` of a sample model."""
_SEES = re.compile(r"(?i)(?:^|[-_./])(?:vl|vision|omni)(?:[-_.]|$)")
_FOUR_BITS = ("awq", "bitsandbytes", "gptq", "gptq_marlin", "modelopt_fp4", "mxfp4")
_QUANTIZED_BITS = {**dict.fromkeys(_FOUR_BITS, 4), "fp8": 8}


@dataclass(frozen=True)
class ModelShape:
    """A transformer, as far as its cost is concerned."""

    parameters_billion: float
    active_billion: float
    """Parameters that one token passes through, fewer than all in a mixture of experts."""
    layers: int
    kv_heads: int
    head_dim: int
    context: int
    """Maximum context length of the model, in tokens."""
    bits: int = 16
    """Bits per weight."""
    embedding: bool = False
    """Whether it returns vectors instead of text."""
    width: int = 0
    """Hidden size, or 0 for four times the width of the KV heads, as in dense models."""
    query_width: int = 0
    """Total width of a layer's query heads, as attention computes, or 0 for `width`."""
    looked_up_billion: float = 0.0
    """Parameters of tables of which a token reads one row."""
    tables_billion: float = 0.0
    """Parameters of all tables of tokens, input and output, or 0 if not known."""
    heads: int = 0
    """Attention heads, or 0 if not known."""
    window: tuple[int, ...] = ()
    """(tokens, layers): number of layers with a sliding window, and its size."""
    vision: bool | None = None
    """Whether it accepts images, or None if not known."""
    image_tokens: int = 0
    """Tokens of an image of any size, or 0."""
    image_pixels: tuple[int, ...] = ()
    """(side, fewest, most) pixels, if the number of tokens depends on the image's size."""
    experts: int = 0
    """Routed experts of a layer, or 0 if not known."""
    active_experts: int = 0
    """Routed experts that a token passes through in each layer, or 0 if not known."""

    @property
    def weights_gb(self) -> float:
        """Size of the weights, in 10^9 bytes."""
        return self.parameters_billion * self.bits / 8

    @property
    def is_mixture(self) -> bool:
        """Whether a token passes through only part of the parameters."""
        return self.active_billion < self.parameters_billion - self.looked_up_billion

    @property
    def expert_billion(self) -> float:
        """Parameters of one routed expert in all layers, in billions; 0 if not a known mixture.

        Every token passes through the other parameters, including shared experts.
        """
        spare = self.experts - self.active_experts
        if not self.is_mixture or not self.active_experts or spare < 1:
            return 0.0
        return (self.parameters_billion - self.looked_up_billion - self.active_billion) / spare

    @property
    def hidden(self) -> int:
        """Hidden size."""
        return self.width or self.kv_heads * self.head_dim * 4


def shape(model: Architecture) -> ModelShape:
    """Return the shape of an architecture at the precision of its checkpoint.

    Latent attention counts as attention with one KV head: a token stores rank and rotary size,
    once.

    Raises:
        ValueError: The model generates no tokens.
    """
    if model.is_diffusion:
        raise ValueError(f"must be a text model, got {model.name}, which makes images")
    kv_heads, head_dim = model.kv_heads, model.head_dim
    queries = model.heads * model.head_dim
    if model.mla:
        rank, rotary = model.mla
        kv_heads, head_dim = 1, (rank + rotary) // 2
        queries = model.heads * (2 * rank + rotary) // 2
    return ModelShape(
        parameters_billion=model.parameters_billion,
        active_billion=model.active_billion or model.parameters_billion,
        layers=model.layers,
        kv_heads=kv_heads,
        head_dim=head_dim,
        context=model.context,
        bits=model.bits,
        embedding=model.kind == "embedding",
        width=model.hidden,
        query_width=queries,
        looked_up_billion=model.looked_up_billion,
        tables_billion=model.tables_billion,
        heads=model.heads,
        window=model.window,
        image_tokens=model.image_tokens,
        image_pixels=model.image_pixels,
        vision=model.is_vision or (False if model.is_published else None),
        experts=model.experts,
        active_experts=model.active_experts,
    )


def sees(weights: str, name: str) -> bool | None:
    """Return whether a stack's model accepts images, or None if it is not known.

    Args:
        weights: Path or `gs://` URI of its files.
        name: Name of the model in the stack.
    """
    known = find_model(weights, name)
    if known is None or known.is_diffusion:
        return None
    vision = shape(known).vision
    return None if not vision and (_SEES.search(weights) or _SEES.search(name)) else vision


def shape_of(model: str, quantization: str | None = None) -> ModelShape:
    """Return the shape of a model by its name or path.

    Args:
        model: such as `meta-llama/Llama-3.1-8B-Instruct`, `gs://bucket/qwen3-32b` or a path.
        quantization: vLLM's `--quantization`, if set.

    Raises:
        ValueError: The name does not contain the size.
    """
    name = _VERSION.sub("", model.rstrip("/"))
    known = find(name)
    made = _estimate(name) if known is None else shape(known)
    bits = _QUANTIZED_BITS.get(quantization or "", 0)
    for pattern, found in _BITS:
        if not bits and pattern.search(name):
            bits = found
    vision = made.vision
    if not vision and _SEES.search(name):
        vision = None  # such as a sibling with a tower, whose sizes are those of the other
    return replace(
        made,
        bits=bits or made.bits,
        embedding=is_embedding(name),
        vision=vision,
    )


def is_embedding(name: str) -> bool:
    """Return whether a model makes embeddings, by its name."""
    return _EMBEDDING.search(name) is not None


def _estimate(name: str) -> ModelShape:
    sizes = [
        float(number) * (1.0 if unit in "bB" else 1e-3)
        for number, unit in _SIZE.findall(name.rsplit("/", 1)[-1])
    ] or [float(number) * (1.0 if unit in "bB" else 1e-3) for number, unit in _SIZE.findall(name)]
    if not sizes:
        if is_embedding(name):
            sizes = [0.3]
        else:
            raise ValueError(f"the size of a model must be in its name, got {name!r}")
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
    """Return the shape in a model folder's own `config.json`, or None if there is none.

    A sample's file is ignored: it is a tiny model in place of the one it is named after.

    The size still comes from the name, since the file does not contain it.
    """
    try:
        config = json.loads((directory / "config.json").read_text())
        if config.get(SAMPLE):
            return None
        heads = int(config["num_attention_heads"])
        named = shape_of(model, quantization)
        return replace(
            named,
            vision=named.vision or "vision_config" in config,
            layers=int(config["num_hidden_layers"]),
            kv_heads=int(config.get("num_key_value_heads", heads)),
            head_dim=int(config.get("head_dim", int(config["hidden_size"]) // heads)),
            context=int(config["max_position_embeddings"]),
        )
    except (OSError, ValueError, KeyError):
        return None
