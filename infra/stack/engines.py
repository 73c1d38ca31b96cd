"""Engines: the server a model runs in, and how it computes."""

from enum import StrEnum

from pydantic import Field

from infra.stack.base.fields import StackModel, Weights


class Engine(StrEnum):
    """The servers a model can run in."""

    VLLM = "vllm"
    SGLANG = "sglang"
    TRITON = "triton"
    TGI = "tgi"
    DIFFUSION = "diffusion"


class Quantization(StrEnum):
    """How the weights are stored in fewer bits."""

    AWQ = "awq"
    BITSANDBYTES = "bitsandbytes"
    COMPRESSED_TENSORS = "compressed-tensors"
    FP8 = "fp8"
    GPTQ = "gptq"
    MODELOPT = "modelopt"
    MXFP4 = "mxfp4"


class KvCacheDtype(StrEnum):
    """Number formats of the KV cache."""

    BFLOAT16 = "bfloat16"
    FP8 = "fp8"
    FP8_E4M3 = "fp8_e4m3"
    FP8_E5M2 = "fp8_e5m2"


class Guess(StrEnum):
    """Where guessed tokens come from."""

    NGRAM = "ngram"
    DRAFT = "draft"


class Speculative(StackModel):
    """Speculative decoding: several tokens are guessed and checked in one step."""

    method: Guess
    """ngram repeats what followed the same words in the prompt; draft asks a smaller model."""
    tokens: int = Field(ge=1, le=16)
    """Tokens guessed at a time."""
    weights: Weights | None = None
    """Of the draft model, as those of a model."""


class EngineSettings(StackModel):
    """How the engine computes; what an engine or its hardware cannot do is refused."""

    quantization: Quantization | None = None
    """How the weights are quantized; by default as the model's own configuration says."""
    kv_cache_dtype: KvCacheDtype | None = None
    """Number format of the KV cache; by default the model's."""
    max_batch: int | None = Field(default=None, ge=1, le=4096)
    """Most requests computed at once (default: the engine's). On TPU a new value compiles again."""
    block_size: int | None = Field(default=None, ge=1, le=256)
    """Tokens of a block of the KV cache; by default the engine's."""
    engine_args: dict[str, bool | int | float | str] | None = None
    """Other flags of the engine, by name without the leading dashes, such as
    max-num-batched-tokens; those that the platform sets are refused."""
    engine_env: dict[str, bool | int | float | str] | None = None
    """Other environment variables of the engine; those that the platform sets are refused."""
    prefix_caching: bool = True
    """Whether the KV cache of a prompt's beginning serves the next prompt that begins alike."""
    speculative: Speculative | None = None
    """Speculative decoding; by default none."""
    tensor_parallel: int | None = Field(default=None, ge=1, le=256)
    """Devices that one copy of the model is split over; by default all of a replica. With fewer,
    a replica holds several copies."""
