"""Settings of engines, which stacks and model servers share."""

from typing import Annotated, Final

from pydantic import Field

from gke_inference.catalogue.engines import CacheDtype, QuantizationName, SpeculativeMethod
from gke_inference.settings import Settings
from gke_inference.settings.fields import Hostname, SecretName, Weights

Gib = Annotated[int, Field(ge=1, le=102_400)]
"""Size of a tier of KV cache."""
MAX_REQUEST_SECONDS: Final = 3600
"""Longest that a request to a model may take, streams included."""
RequestSeconds = Annotated[int, Field(ge=1, le=MAX_REQUEST_SECONDS)]
"""Maximum time of a request, streams included."""
StreamIdleSeconds = Annotated[int, Field(ge=5, le=MAX_REQUEST_SECONDS)]
"""Longest time without a byte in a stream. A shorter one would cut long prompts."""
ReplicaCount = Annotated[int, Field(ge=0, le=1000)]
"""Number of replicas of a model in a region."""
SomeReplicas = Annotated[int, Field(ge=1, le=1000)]
"""Number of replicas of a model in a region that has at least one."""
Scalars = dict[str, bool | int | float | str]
"""Values of flags or variables, by name."""
ServedContext = Annotated[int, Field(ge=77, le=10_000_000)]
"""Maximum length of prompt and answer together, in tokens."""
NO_CONTEXT = 0
"""Context of a model that reads no tokens."""


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


class SharedTier(Settings):
    """A tier of KV cache that all replicas of a region share, and that outlives them."""

    gib: Gib
    """Room for the model's blocks, including those of former settings. The least recently used are
    deleted first."""


class KvOffload(Settings):
    """KV cache beyond the accelerator's memory, for prompts whose prefix was evicted from it.

    Every computed block is also stored in each of the tiers. vLLM on GPU only, and not with live
    adapters. With adapters, only `cpu_gib`.
    """

    cpu_gib: Gib
    """Main memory of each replica for blocks. All blocks of lower tiers pass through it."""
    disk_gib: Gib | None = None
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

    @property
    def limits(self) -> dict[str, int]:
        """Maximum number by kind of media, where it is not the engine's default."""
        found = {"audio": self.audio, "image": self.image, "video": self.video}
        return {kind: number for kind, number in found.items() if number is not None}


class EngineSettings(Settings):
    """Engine settings. Settings that the engine or its hardware does not support are rejected."""

    quantization: QuantizationName | None = None
    """Quantization method of the weights. By default, as in the model's configuration."""
    kv_cache_dtype: CacheDtype | None = None
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
    engine_args: Scalars | None = None
    """Additional engine flags, by name without the leading dashes, such as max-num-batched-tokens.
    Flags that the platform sets are rejected."""
    engine_env: Scalars | None = None
    """Additional environment variables of the engine. Variables that the platform sets are
    rejected."""
    engine_secrets: dict[str, SecretName] = Field(default_factory=dict[str, str])
    """Environment variables of the engine with the value of a secret of Secret Manager, as
    `projects/PROJECT/secrets/SECRET`. An engine reads the latest version when it starts, with its
    own service account."""
    prefix_caching: bool = True
    """Whether to reuse the KV cache of a prompt prefix for later prompts with the same prefix."""
    speculative: Speculative | None = None
    """Speculative decoding. None by default."""
    tensor_parallel: int | None = Field(default=None, ge=1, le=256)
    """Number of devices that one copy of the model is sharded across. By default, all devices of a
    replica. With fewer, a replica runs several copies."""

    @property
    def flags(self) -> dict[str, str]:
        """`engine_args` as on a command line, where YAML's true is `true`."""
        return _texts(self.engine_args)

    @property
    def variables(self) -> dict[str, str]:
        """`engine_env` as text."""
        return _texts(self.engine_env)


def _texts(values: Scalars | None) -> dict[str, str]:
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in (values or {}).items()
    }
