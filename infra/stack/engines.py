"""Engines: the model server and its settings."""

from enum import StrEnum

from pydantic import Field

from gke_inference.settings import Settings
from gke_inference.settings.fields import (
    Hostname,
    SecretId,
    Weights,
)


class Engine(StrEnum):
    """Model servers that a model can run in."""

    VLLM = "vllm"
    SGLANG = "sglang"
    TRITON = "triton"
    TGI = "tgi"
    DIFFUSION = "diffusion"


class Quantization(StrEnum):
    """Quantization methods of the weights."""

    AWQ = "awq"
    BITSANDBYTES = "bitsandbytes"
    COMPRESSED_TENSORS = "compressed-tensors"
    FP8 = "fp8"
    GPTQ = "gptq"
    MODELOPT = "modelopt"
    MXFP4 = "mxfp4"


class KvCacheDtype(StrEnum):
    """Data types of the KV cache."""

    BFLOAT16 = "bfloat16"
    FP8 = "fp8"
    FP8_E4M3 = "fp8_e4m3"
    FP8_E5M2 = "fp8_e5m2"


class SpeculativeMethod(StrEnum):
    """Source of speculative tokens."""

    NGRAM = "ngram"
    DRAFT = "draft"
    EAGLE3 = "eagle3"
    MTP = "mtp"


class Speculative(Settings):
    """Speculative decoding: the engine proposes several tokens and verifies them in one step."""

    method: SpeculativeMethod
    """`ngram` repeats what followed the same words in the prompt. `draft` runs a smaller model.
    `eagle3` runs an EAGLE-3 head that was trained for the model. `mtp` runs the layers for further
    tokens that some models have. `eagle3` and `mtp` require vLLM on GPU."""
    tokens: int = Field(ge=1, le=16)
    """Number of tokens proposed per step."""
    weights: Weights | None = None
    """Weights of the draft model or the EAGLE-3 head, in the same form as those of a model."""


class SharedPlace(StrEnum):
    """Kind of volume that replicas share."""

    FILESTORE = "filestore"
    LUSTRE = "lustre"


class SharedTier(Settings):
    """A tier of KV cache that all replicas of a region share, and that outlives them."""

    place: SharedPlace
    """Volume of the tier: `filestore`, the share of `storage.filestore`; or `lustre`, the instance
    of `storage.lustre`."""
    gib: int = Field(ge=1, le=102_400)
    """Room for the model's blocks, including those of former settings. The least recently used are
    deleted first."""


class KvOffload(Settings):
    """KV cache beyond the accelerator's memory, for prompts whose prefix was evicted from it.

    Every computed block is also stored in each of the tiers. vLLM on GPU only, and not with live
    adapters. With adapters, only `cpu_gib`.
    """

    cpu_gib: int = Field(ge=1, le=102_400)
    """Main memory of each replica for blocks. All blocks of lower tiers pass through it."""
    disk_gib: int | None = Field(default=None, ge=1, le=102_400)
    """Local SSD of each replica for blocks, on machines that have some. It is deleted with the
    pod."""
    shared: SharedTier | None = None
    """A volume for blocks, which all replicas of a region share. None by default."""


class Multimodal(Settings):
    """Limits of media in one prompt. vLLM and SGLang only."""

    image: int | None = Field(default=None, ge=0, le=999)
    """Maximum number of images. By default, the engine's."""
    video: int | None = Field(default=None, ge=0, le=999)
    """Maximum number of videos. By default, the engine's."""
    audio: int | None = Field(default=None, ge=0, le=999)
    """Maximum number of audio clips. By default, the engine's."""
    domains: tuple[Hostname, ...] = ()
    """Hosts from which the engine may fetch media that a request names by address. By default
    none: a request must contain its media as data URLs."""


class EngineSettings(Settings):
    """Engine settings. Settings that the engine or its hardware does not support are rejected."""

    quantization: Quantization | None = None
    """Quantization method of the weights. By default, as in the model's configuration."""
    kv_cache_dtype: KvCacheDtype | None = None
    """Data type of the KV cache. By default, as in the model's configuration."""
    kv_offload: KvOffload | None = None
    """KV cache beyond the accelerator's memory. None by default."""
    max_batch: int | None = Field(default=None, ge=1, le=4096)
    """Maximum number of requests per batch. By default, the engine's. On TPU, a new value triggers
    recompilation."""
    block_size: int | None = Field(default=None, ge=1, le=256)
    """Tokens per block of the KV cache. By default, the engine's."""
    chat_template: str | None = None
    """Text of the Jinja template that makes a prompt of a conversation. By default, the template
    in the weights. vLLM and SGLang only."""
    multimodal: Multimodal | None = None
    """Limits of images, videos and audio in one prompt. By default the engine's numbers, and no
    hosts."""
    engine_args: dict[str, bool | int | float | str] | None = None
    """Additional engine flags, by name without the leading dashes, such as max-num-batched-tokens.
    Flags that the platform sets are rejected."""
    engine_env: dict[str, bool | int | float | str] | None = None
    """Additional environment variables of the engine. Variables that the platform sets are
    rejected."""
    engine_secrets: dict[str, SecretId] = Field(default_factory=dict[str, str])
    """Environment variables of the engine with the value of a secret, by the secret's ID in Secret
    Manager, in the project of the stack. An engine reads the latest version when it starts."""
    prefix_caching: bool = True
    """Whether to reuse the KV cache of a prompt prefix for later prompts with the same prefix."""
    speculative: Speculative | None = None
    """Speculative decoding. None by default."""
    tensor_parallel: int | None = Field(default=None, ge=1, le=256)
    """Number of devices that one copy of the model is sharded across. By default, all devices of a
    replica. With fewer, a replica runs several copies."""
