"""The spec of a server, as typed values and as the JSON file that the launcher reads.

The file is JSON because the launcher can use only the standard library, in any image.
"""

import json
import types
import typing
from dataclasses import MISSING, asdict, dataclass, field, fields
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

SCHEMA = 1
"""Version of the file; a launcher rejects other versions."""

PORT = 8000
"""Port of the API and the metrics of every engine, unless another server is in front of it."""

GRPC_PORT = 8001
"""Port of the API over gRPC of an engine that has one."""

METRICS_PORT = 8002
"""Port of the metrics of an engine whose API has none."""

KV_DISK, KV_SHARED = "/mnt/kv-disk", "/mnt/kv-shared"
"""Volumes with KV cache in the engine's container: on local SSD, and on a share."""

NEEDS = "gke-inference/weights"
"""Annotation of a workload that waits: JSON list of the weights that it reads, as
`gs://BUCKET/FOLDER` of a model's versions, `gs://BUCKET/FOLDER@VERSION`, or
`adapter:gs://BUCKET/FOLDER`."""
ADAPTER_NEED = "adapter:"
REPLICAS = "gke-inference/replicas"
"""Annotation of a workload that waits: initial number of replicas."""
DELIVERED = "gke-inference/delivered"
"""Annotation with the value `git` on a workload that waits and whose manifest has no replica count,
so that it is created with one replica."""
CHAT_TEMPLATE = "chat-template.jinja"
"""File beside the launcher with a chat template. SGLang takes another ending for its own format."""
STATE = "weights-state"
"""Name of the ConfigMap in which the weights gate records waiting workloads."""

_T = TypeVar("_T")


class SpecError(ValueError):
    """An invalid spec; the message contains field, rule and value."""


@dataclass(frozen=True)
class Speculation:
    """Speculative decoding: tokens are guessed and then verified in one step."""

    method: str
    """`ngram`: guess from the prompt; `draft`: with a smaller model; `eagle3`: with a head trained
    for the model; `mtp`: with the model's own layers."""
    tokens: int
    """Number of tokens per guess."""
    source: str | None = None
    """Location of the draft model or head, as in `Serving.source`."""
    has_versions: bool = False
    """Same as `Serving.has_versions`, for the draft model."""
    version: str | None = None
    """Same as `Serving.version`, for the draft model."""


@dataclass(frozen=True)
class ImageModel:
    """A further model of an image server."""

    source: str
    """Folder of a mounted volume, as in `Serving.source`."""
    has_versions: bool = False
    """Same as `Serving.has_versions`."""
    version: str | None = None
    """Same as `Serving.version`."""
    steps: int | None = None
    """Default number of denoising steps."""
    sigmas: tuple[float, ...] = ()
    """Noise level before each step, for a model that was distilled to a fixed schedule."""
    context_tokens: int | None = None
    """Tokens of a prompt; None: those of the first model."""
    chips: int | None = None
    """Number of chips that hold this model and no other; the first model has the remaining ones.
    None for every model: each chip holds all models."""


@dataclass(frozen=True)
class Serving:
    """Serving configuration of one engine process on one kind of hardware."""

    kind: str
    """`tpu`, `gpu` or `cpu`."""
    served_name: str
    source: str
    """`gs://` path that is streamed into device memory, or a folder of a mounted volume."""
    tensor_parallel: int
    """Devices over which the model is split: chips, or twice that if a chip is two devices."""
    context_tokens: int
    has_versions: bool = False
    """Whether `source` has a folder for each version of the model, and a pointer to the version
    to serve."""
    version: str | None = None
    """Required version in `source`; None: any."""
    engine: str = "vllm"
    extra_arguments: tuple[str, ...] = ()
    """Engine arguments from the stack, after those that follow from the other fields."""
    secrets: dict[str, str] = field(default_factory=dict[str, str])
    """Secrets of Secret Manager, as `projects/P/secrets/S`, by variable of the engine."""
    pipeline_parallel: int = 1
    """Number of pipeline stages, one for each host of a GPU group."""
    data_parallel: int = 1
    """Copies of the model in one server, each on `tensor_parallel` devices."""
    hosts: int = 1
    """Nodes of one replica."""
    all2all: str | None = None
    """All-to-all backend of expert parallelism over all devices; None: no expert parallelism."""
    hybrid_load_balancing: bool = False
    """Whether each host of a group with expert parallelism has an API for its own devices."""
    redundant_experts: int = 0
    """Additional copies of experts."""
    spanning: str | None = None
    """Backend that spans the hosts of a group: `engine` or `ray`."""
    task: str = "generate"
    adapters: dict[str, str] = field(default_factory=dict[str, str])
    """Folders of adapters in a mounted volume, by adapter name."""
    adapter_rank: int = 16
    """Largest adapter rank, for which memory is reserved."""
    adapter_slots: int = 0
    """Maximum number of different adapters in one batch; 0: no adapters."""
    adapters_cached: int = 0
    """Number of adapters kept in main memory."""
    block_size: int | None = None
    """Tokens per KV-cache block."""
    chat_template: str | None = None
    """File with the chat template; None: that of the weights."""
    kv_cache_dtype: str | None = None
    grpc_port: int | None = None
    """Port of the API over gRPC; None: no gRPC."""
    max_batch: int | None = None
    media_limits: dict[str, int] = field(default_factory=dict[str, int])
    """Maximum number in a prompt by kind of media, where it is not the engine's default."""
    media_domains: tuple[str, ...] = ()
    """Hosts from which the engine may fetch media; empty: the model has no use for media."""
    quantization: str | None = None
    prefix_caching: bool = True
    speculation: Speculation | None = None
    memory_share: float = 0.9
    """Fraction of the devices' memory that the engine may use."""
    collector: str | None = None
    """OTLP endpoint for spans."""
    port: int = PORT
    kv_transfer: str | None = None
    """Complete KV-transfer flag: of a prefill or decode replica, or with tiers of KV cache."""
    kv_folders: dict[str, int] = field(default_factory=dict[str, int])
    """Folders with KV cache, and the most GiB of files in each, over all releases and settings."""
    kv_current: tuple[str, ...] = ()
    """Folders of the engine in `kv_folders`; files that are in none of them are deleted first."""
    cache_folder: str | None = None
    """Folder in which the engine caches compiled programs."""
    cache_archive: str | None = None
    """`gs://` folder of the object that archives them beyond the pod's lifetime; None:
    `cache_folder` itself is persistent."""
    image_models: dict[str, ImageModel] = field(default_factory=dict[str, ImageModel])
    """Further models of an image server, by the name that clients use."""
    image_sizes: tuple[str, ...] = ()
    """Sizes that a model of images or videos generates, such as `1024x1024`; the first is the
    default."""
    image_steps: int | None = None
    """Default number of denoising steps."""
    image_adapters: int | None = None
    """Maximum number of adapters in a request; None: one."""
    image_queue: int | None = None
    """Maximum number of queued images or videos."""
    image_body_bytes: int | None = None
    """Maximum size of a request with images: the gateway's limit of a body."""
    image_sigmas: tuple[float, ...] = ()
    """Noise level before each step, for a model that was distilled to a fixed schedule."""
    image_step_cache: float | None = None
    """Relative change up to which a denoising step reuses blocks of an earlier one."""
    video_frames: tuple[int, ...] = ()
    """Numbers of frames that a video model generates; the first is the default."""
    live_adapters: str | None = None
    """Folder that the engine itself checks for adapters; None: none, or a loader adds them."""
    longest_request_seconds: int = 300
    """Time limit of one request, in seconds."""
    read_ahead: bool = False
    """Whether the weights' mount has a cache that several readers fill faster."""


@dataclass(frozen=True)
class Spec:
    """Complete configuration of a launcher."""

    model: str
    serving: dict[str, Serving]
    """Serving configuration by kind of hardware."""
    health_path: str = "/health"
    """Path of the engine that returns 200 once it serves."""
    metrics_path: str = "/metrics"
    metrics_port: "int | None" = None
    """Port of the engine's metrics; None: that of its API."""
    busy_metrics: tuple[str, ...] = ()
    """Gauges of the engine, in the picker's notation, whose sum is the number of open requests."""
    health_port: int = 8090
    """Port of the launcher's own `/startz`, `/healthz`, `/readyz` and `/stage`."""
    longest_request_seconds: int = 300
    """Time for a terminating server to finish open requests, in seconds."""
    settle_seconds: int = 0
    """Time for which a terminating server still accepts requests, because load balancers react
    late, in seconds."""
    stop_seconds: int = 30
    """Time for the engine to end once it is idle, in seconds."""
    start_seconds: int = 1800
    """Time for the engine to load and compile once the weights exist, in seconds."""
    schema: int = SCHEMA

    def text(self) -> str:
        """Return the file's content, which is deterministic."""
        return json.dumps(asdict(self), indent=1, sort_keys=True) + "\n"


def read(text: str) -> Spec:
    """Return the spec in a file.

    Raises:
        SpecError: It is not JSON, has an unknown or missing field, or a value has another type.
    """
    try:
        content = json.loads(text)
    except ValueError as error:
        raise SpecError(f"spec: must be JSON, got {error}") from error
    if not isinstance(content, dict):
        raise SpecError(f"spec: must be a mapping of fields, got {_shown(content)}")
    schema = cast("dict[str, Any]", content).get("schema", SCHEMA)
    if schema != SCHEMA:
        raise SpecError(f"spec.schema: must be {SCHEMA} for this launcher, got {_shown(schema)}")
    return _typed(Spec, content, "spec")


def _typed(cls: type[_T], content: Any, where: str) -> _T:
    """Build a dataclass from a mapping, and check each field against its annotation."""
    hints = get_type_hints(cls)
    known = {each.name for each in fields(cast("Any", cls))}
    given = cast("dict[str, Any]", content)
    for name, value in given.items():
        if name not in known:
            raise SpecError(f"{where}.{name}: is not a field, got {_shown(value)}")
    for each in fields(cast("Any", cls)):
        if each.name not in given and each.default is MISSING and each.default_factory is MISSING:
            raise SpecError(f"{where}.{each.name}: must be given, got none")
    values = {name: _value(hints[name], value, f"{where}.{name}") for name, value in given.items()}
    return cls(**values)


def _value(hint: Any, value: Any, where: str) -> Any:
    origin: Any = get_origin(hint)
    inner = get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return None if value is None else _value(inner[0], value, where)
    if origin is dict and isinstance(value, dict):
        entries = cast("dict[str, Any]", value)
        return {key: _value(inner[1], each, f"{where}.{key}") for key, each in entries.items()}
    if origin is tuple and isinstance(value, list):
        listed = cast("list[Any]", value)
        return tuple(_value(inner[0], each, f"{where}[{at}]") for at, each in enumerate(listed))
    if origin is None and hint in (ImageModel, Serving, Speculation) and isinstance(value, dict):
        return _typed(hint, value, where)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if origin is None and isinstance(hint, type) and type(value) is hint:
        return value
    name = getattr(hint, "__name__", str(hint)) if origin is None else str(hint)
    raise SpecError(f"{where}: must be {name}, got {_shown(value)}")


def _shown(value: Any) -> str:
    text = repr(value) if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "..."
