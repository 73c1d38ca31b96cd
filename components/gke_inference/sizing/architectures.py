"""Published architectures of models, from data/models.yaml or a `config.json`."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

from gke_inference.catalogue.data_file import UNVERIFIED, read_table
from gke_inference.sizing.parameters import counted, head_size, number

_FILE = Path(__file__).parent / "data" / "models.yaml"
_TRUST = ("documented", "secondary", UNVERIFIED)
"""How far a context of a variant can be trusted, best first."""
_DIFFUSION = "diffusion"
KINDS = ("dense", "moe", "embedding", _DIFFUSION)
_NAMES_CONTEXT = re.compile(r"(?<![\d.])\d+[km](?![a-z\d])")
_BYTES_OF_TYPE = {"float32": 32, "bfloat16": 16, "float16": 16, "float8_e4m3fn": 8}


@dataclass(frozen=True)
class Architecture:
    """One model as its publisher describes it."""

    name: str
    kind: str
    """One of `KINDS`."""
    parameters_billion: float
    """All parameters that are loaded, including vision tower and tables."""
    source: str
    active_billion: float = 0.0
    """Parameters that one token passes through, or 0 for all."""
    layers: int = 0
    """Layers with a KV cache; for a diffusion model, blocks."""
    hidden: int = 0
    ffn: int = 0
    """Inner width of a feed-forward layer; in a mixture, of one expert."""
    heads: int = 0
    kv_heads: int = 0
    head_dim: int = 0
    vocab: int = 0
    context: int = 0
    """Maximum context length, in tokens."""
    bits: int = 16
    """Bits per weight of the published checkpoint."""
    experts: int = 0
    active_experts: int = 0
    vision: float = 0.0
    """Parameters of the vision tower in billions, included in the total."""
    image_tokens: int = 0
    """Tokens of an image of any size, or 0."""
    image_pixels: tuple[int, ...] = ()
    """(side, fewest, most): side of the square that becomes one token, and bounds of an image's
    size; in pixels."""
    window: tuple[int, ...] = ()
    """(tokens, layers): number of layers with a sliding window, and its size."""
    mla: tuple[int, ...] = ()
    """(latent rank, rotary size): what multi-head latent attention stores per token and layer."""
    mtp_layers: int = 0
    """Layers that predict further tokens, for speculative decoding (`num_nextn_predict_layers`)."""
    looked_up_billion: float = 0.0
    """Parameters of tables from which a token reads one row."""
    tied: bool = False
    """Whether one table serves input and output (`tie_word_embeddings`)."""
    denoiser_billion: float = 0.0
    """Diffusion: parameters that every step passes through."""
    steps: int = 0
    """Diffusion: default number of steps per image or video."""
    pipeline: str = ""
    """Diffusion: pipeline of the image server that generates its images or videos, `flux`, `sdxl`
    or `wan`; empty if none does."""
    output: tuple[int, int, int] = (1024, 1024, 1)
    """Diffusion: width, height and frames that the following numbers are for."""
    narrow_encoder_billion: float = 0.0
    """Diffusion: parameters of the text encoder that the image server keeps in 8 bits."""
    passes: int = 1
    """Diffusion: passes per step, 2 with guidance."""
    latent_tokens: int = 0
    """Diffusion transformer: tokens of the output, and of the text that it attends to itself."""
    flops_per_step: float = 0.0
    """Diffusion: operations of one pass, where published or counted."""

    @property
    def is_diffusion(self) -> bool:
        """Whether it generates images or videos."""
        return self.kind == _DIFFUSION

    @property
    def is_published(self) -> bool:
        """Whether the sizes are those of the publisher's `config.json`, which lists a tower."""
        return self.source.startswith("config ")

    @property
    def is_vision(self) -> bool:
        """Whether it accepts images."""
        return self.vision > 0

    @property
    def is_video(self) -> bool:
        """Whether it generates videos."""
        return self.output[2] > 1

    @property
    def tables_billion(self) -> float:
        """Parameters of all tables of tokens, input and output."""
        return self.vocab * self.hidden * (1 if self.tied else 2) / 1e9 + self.looked_up_billion


def known() -> tuple[Architecture, ...]:
    """Return every model of the table, in table order."""
    return tuple(entry for _, entry in _entries())


def find(name: str) -> Architecture | None:
    """Return the architecture for a model's name or path, or None.

    Args:
        name: such as `meta-llama/Llama-3.1-8B-Instruct`, `gs://bucket/qwen3-32b` or a path.
    """
    lowered = name.rstrip("/").lower()
    return next((entry for pattern, entry in _entries() if pattern.search(lowered)), None)


def find_model(weights: str, name: str) -> Architecture | None:
    """Return the architecture of a stack's model, by the name of its files or its own name.

    Args:
        weights: Path or `gs://` URI of its files. The bucket is ignored.
        name: Name of the model in the stack.
    """
    path = weights.removeprefix("gs://").partition("/")[2] if "://" in weights else weights
    return find(path) or find(name)


def longest_context(weights: str, name: str) -> tuple[str, int] | None:
    """Return the model and the longest context, in tokens, that its published config allows.

    None if the table does not know it exactly: its figures are estimated, or the name itself gives
    a context, such as `qwen2.5-7b-instruct-1m`.

    Args:
        weights: Path or `gs://` URI of its files. The bucket is ignored.
        name: Name of the model in the stack.
    """
    path = weights.removeprefix("gs://").partition("/")[2] if "://" in weights else weights
    word = (path if find(path) else name).rstrip("/").lower()
    found = find(word)
    if found is None or not found.context or not found.is_published:
        return None
    if _NAMES_CONTEXT.search(word):
        return None
    variants = (length for pattern, length in _variants() if pattern.search(word))
    longest = next(variants, found.context)
    return None if longest is None else (found.name, longest)


def is_sdxl(weights: str, name: str) -> bool:
    """Return whether a stack's model is known to be of Stable Diffusion XL.

    Args:
        weights: Path or `gs://` URI of its files.
        name: Name of the model in the stack.
    """
    found = find_model(weights, name)
    return found is not None and found.pipeline == "sdxl"


@cache
def _document() -> dict[str, Any]:
    return read_table(_FILE)


@cache
def _entries() -> tuple[tuple[re.Pattern[str], Architecture], ...]:
    found: list[tuple[re.Pattern[str], Architecture]] = []
    for name, body in _document()["models"].items():
        fields: dict[str, Any] = dict(body)
        pattern = re.compile(str(fields.pop("match")))
        for pair in ("image_pixels", "mla", "output", "window"):
            if pair in fields:
                fields[pair] = tuple(fields[pair])
        found.append((pattern, Architecture(name=name, **fields)))
    return tuple(found)


@cache
def _variants() -> tuple[tuple[re.Pattern[str], int | None], ...]:
    entries = _document()["contexts"]
    for entry in entries:
        trust = entry.get("confidence")
        if (entry["context"] is None) != (trust is None) or trust not in (None, *_TRUST):
            rule = f"must be one of {', '.join(_TRUST)} where there is a context"
            raise ValueError(f"contexts.{entry['match']}.confidence: {rule}, got {trust!r}")
    return tuple((re.compile(entry["match"]), entry["context"]) for entry in entries)


def of_config(file: Path, parameters_billion: float | None = None) -> Architecture:
    """Return the architecture that a Hugging Face `config.json` describes.

    Parameters are calculated from the sizes unless the caller provides them.

    Raises:
        ValueError: the file cannot be read, or lacks a size.
    """
    config = _config(file)
    text: dict[str, Any] = config.get("text_config", config)
    try:
        heads = int(text["num_attention_heads"])
        hidden, layers = int(text["hidden_size"]), int(text["num_hidden_layers"])
        experts = number(text, "num_local_experts", "n_routed_experts", "num_experts")
        found = counted(text)
        total = round(parameters_billion or found.total, 3)
        return Architecture(
            name=file.parent.name or "model",
            kind="moe" if experts > 1 else "dense",
            parameters_billion=total,
            active_billion=round(total * found.active / found.total, 3) if experts > 1 else 0.0,
            source=str(file),
            layers=layers,
            hidden=hidden,
            ffn=number(text, *(("moe_intermediate_size",) if experts else ()), "intermediate_size"),
            heads=heads,
            kv_heads=int(text.get("num_key_value_heads") or heads),
            head_dim=head_size(text),
            vocab=int(text["vocab_size"]),
            context=int(text["max_position_embeddings"]),
            bits=_bits(config, text),
            experts=experts,
            active_experts=number(text, "num_experts_per_tok"),
            window=_window(text, layers),
            mla=_mla(text),
            tied=bool(text.get("tie_word_embeddings")),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{file}: must have the sizes of a language model: {error}") from None


def _config(file: Path) -> dict[str, Any]:
    try:
        found: Any = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{file}: cannot be read: {(error.strerror or '').lower()}") from None
    except ValueError as error:
        raise ValueError(f"{file}: must be a model's config.json: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{file}: must be a model's config.json, which is an object")
    return cast(dict[str, Any], found)


def _bits(config: Mapping[str, Any], text: Mapping[str, Any]) -> int:
    quantized: Mapping[str, Any] = config.get("quantization_config") or {}
    method = str(quantized.get("quant_method", ""))
    if quantized:
        return 8 if "fp8" in method else int(quantized.get("bits", 4))
    kind = str(text.get("torch_dtype") or text.get("dtype") or config.get("torch_dtype") or "")
    return _BYTES_OF_TYPE.get(kind, 16)


def _window(text: Mapping[str, Any], layers: int) -> tuple[int, ...]:
    window = text.get("sliding_window")
    if not window or text.get("use_sliding_window") is False:
        return ()
    kinds: list[str] = text.get("layer_types") or []
    if kinds:
        return (int(window), sum(kind.startswith("sliding") for kind in kinds))
    every = int(text.get("sliding_window_pattern") or 0)
    return (int(window), layers - layers // every if every else layers)


def _mla(text: Mapping[str, Any]) -> tuple[int, ...]:
    if not text.get("kv_lora_rank"):
        return ()
    return (int(text["kv_lora_rank"]), int(text.get("qk_rope_head_dim", 64)))
