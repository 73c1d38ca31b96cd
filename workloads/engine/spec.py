"""What one server has to serve, as typed values and as the JSON file that the launcher reads.

JSON, not YAML: the launcher may use nothing but the standard library, in any image.
"""

import json
import types
import typing
from dataclasses import asdict, dataclass, field, fields
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

SCHEMA = 1
"""Version of the file; a launcher refuses another one."""

PORT = 8000
"""Port of the API and the metrics of every engine, where nothing stands in front of it."""

NEEDS = "gke-inference/weights"
"""Annotation of a workload that waits: JSON list of what it reads, as `gs://BUCKET/FOLDER` of a
model's versions, `gs://BUCKET/FOLDER@VERSION`, or `adapter:gs://BUCKET/FOLDER`."""
ADAPTER_NEED = "adapter:"
REPLICAS = "gke-inference/replicas"
"""Annotation of a workload that waits: replicas that it begins with."""
DELIVERED = "gke-inference/delivered"
"""Annotation, with the word `git`, of a workload that waits, and whose number of replicas is no
field of what applies it: it is created with one."""
STATE = "weights-state"
"""Name of the ConfigMap in which the weights' gate writes what waits."""

_T = TypeVar("_T")


class SpecError(ValueError):
    """A spec that cannot be used; the message has field, rule and value."""


@dataclass(frozen=True)
class Speculation:
    """Tokens that are guessed and then checked in one step."""

    method: str
    """`ngram`: from the prompt; `draft`: by a smaller model."""
    tokens: int
    """Tokens guessed at a time."""
    source: str | None = None
    """Where the draft model is, as `Serving.source`."""
    has_versions: bool = False
    """As `Serving.has_versions`."""
    version: str | None = None
    """As `Serving.version`."""


@dataclass(frozen=True)
class Serving:
    """What one engine process serves on one kind of hardware."""

    kind: str
    """`tpu`, `gpu` or `cpu`."""
    served_name: str
    source: str
    """A `gs://` path that is streamed into device memory, or a folder of a mounted volume."""
    tensor_parallel: int
    """Devices the model is split over: chips, or twice that where a chip is two devices."""
    context_tokens: int
    has_versions: bool = False
    """Whether `source` has the model's versions in folders of their names, of which its pointer
    names the one that is served."""
    version: str | None = None
    """The version that `source` must hold; None: any."""
    engine: str = "vllm"
    extra_arguments: tuple[str, ...] = ()
    """Arguments that the stack gives the engine, behind those that follow from the other fields."""
    pipeline_parallel: int = 1
    """Stages the model is cut into, one for each host of a GPU group."""
    data_parallel: int = 1
    """Copies of the model in one server, each on `tensor_parallel` devices."""
    hosts: int = 1
    """Nodes of one replica."""
    spanning: str | None = None
    """How the servers of a group find each other: `engine` or `ray`."""
    task: str = "generate"
    adapters: dict[str, str] = field(default_factory=dict[str, str])
    """Adapter name to its folder in a mounted volume."""
    adapter_rank: int = 16
    """Largest rank: memory is set aside for it."""
    adapter_slots: int = 0
    """Different adapters of one batch; 0: no adapters."""
    adapters_cached: int = 0
    """Adapters kept in main memory."""
    block_size: int | None = None
    """Tokens of a KV-cache block."""
    kv_cache_dtype: str | None = None
    max_batch: int | None = None
    quantization: str | None = None
    prefix_caching: bool = True
    speculation: Speculation | None = None
    memory_share: float = 0.9
    """Share of the devices' memory the engine may take."""
    collector: str | None = None
    """Where spans go, over OTLP."""
    port: int = PORT
    kv_transfer: str | None = None
    """The whole flag of a prefill or decode replica."""
    cache_folder: str | None = None
    """Where the engine keeps compiled programs."""
    cache_archive: str | None = None
    """`gs://` folder of the object that holds them beyond the pod's life; None: `cache_folder`
    itself outlives it."""
    image_sizes: tuple[str, ...] = ()
    """Sizes that an image model draws, such as `1024x1024`; the first is the default."""
    image_steps: int | None = None
    """Denoising steps where a request does not say."""
    image_queue: int | None = None
    """Pictures that may wait."""
    longest_request_seconds: int = 300
    """How long one request may take."""
    read_ahead: bool = False
    """Whether the weights' mount has a cache that is filled faster by many readers."""


@dataclass(frozen=True)
class Spec:
    """All that a launcher is told."""

    model: str
    serving: dict[str, Serving]
    """By kind of hardware."""
    health_path: str = "/health"
    """Path of the engine that answers 200 once it serves."""
    metrics_path: str = "/metrics"
    busy_metrics: tuple[str, ...] = ()
    """Gauges of the engine, as the picker writes them, whose sum is the open requests."""
    health_port: int = 8090
    """Port of the launcher's own `/startz`, `/healthz`, `/readyz` and `/stage`."""
    longest_request_seconds: int = 300
    """How long a server that must end may finish what it answers."""
    settle_seconds: int = 0
    """How long a server that must end takes requests still: load balancers let go late."""
    stop_seconds: int = 30
    """How long the engine may take to end once it is idle."""
    start_seconds: int = 1800
    """How long the engine may load and compile once the weights are there."""
    schema: int = SCHEMA

    def text(self) -> str:
        """Return the file's content; the same spec is always the same text."""
        return json.dumps(asdict(self), indent=1, sort_keys=True) + "\n"


def read(text: str) -> Spec:
    """Return the spec that a file holds.

    Raises:
        SpecError: It is no JSON, has an unknown field, lacks one, or a value has another type.
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
    """Build a dataclass out of a mapping, checking each field against its annotation."""
    hints = get_type_hints(cls)
    known = {each.name for each in fields(cls)}  # pyright: ignore[reportArgumentType]
    given = cast("dict[str, Any]", content)
    for name, value in given.items():
        if name not in known:
            raise SpecError(f"{where}.{name}: is not a field, got {_shown(value)}")
    values = {name: _value(hints[name], value, f"{where}.{name}") for name, value in given.items()}
    try:
        return cls(**values)
    except TypeError as error:
        raise SpecError(f"{where}: {str(error).split(') ')[-1]}") from error


def _value(hint: Any, value: Any, where: str) -> Any:
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return None if value is None else _value(inner[0], value, where)
    if origin is dict and isinstance(value, dict):
        entries = cast("dict[str, Any]", value)
        return {key: _value(inner[1], each, f"{where}.{key}") for key, each in entries.items()}
    if origin is tuple and isinstance(value, list):
        listed = cast("list[Any]", value)
        return tuple(_value(inner[0], each, f"{where}[{at}]") for at, each in enumerate(listed))
    if origin is None and hint in (Serving, Speculation) and isinstance(value, dict):
        return _typed(hint, value, where)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if origin is None and isinstance(hint, type) and type(value) is hint:
        return value
    name = getattr(hint, "__name__", str(hint)) if origin is None else str(hint)
    raise SpecError(f"{where}: must be {name}, got {_shown(value)}")


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "..."
