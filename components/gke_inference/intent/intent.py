"""A served model as its user means it: one shape for a model of a stack and for `ModelServer`.

Both translate into `intent_of`, which checks what one field may hold alone. What fields must keep
together, and what engines and hardware can do, is in `intent_rules`. Nothing here needs Pulumi.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NotRequired, TypedDict

from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.rungs import Rung, RungArgs
from gke_inference.intent.readers import given, one_of, optional, percent, positive, whole

FORMS = ("dual-container", "paired", "single")
RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""Ranks that vLLM has kernels for: a choice of `--max-lora-rank`, not any number."""
ROLES = ("decode", "prefill")
SPANNING = ("engine", "ray")
TASKS = ("embed", "generate", "image")


class LiveAdaptersArgs(TypedDict):
    """A folder of a bucket whose adapters are served as they come and go."""

    source: str
    """`gs://BUCKET/PATH`: each folder in it with a configuration and weights is an adapter."""
    max_rank: NotRequired[int]
    """Largest rank: 1, 8, 16 (default), 32, 64, 128, 256, 320 or 512; memory grows with it."""
    claim: NotRequired[str]
    """Claim of a volume with the folder, such as that of a `SharedFolder`; `source` is then the
    path in it. Default: the folder is in a bucket."""
    slots: NotRequired[int]
    """Adapters that one batch may hold, 1 to 64. Default 8."""


class SpeculativeArgs(TypedDict):
    """Speculative decoding: several tokens are guessed and checked in one step."""

    method: str
    """`ngram` repeats what followed the same words in the prompt; `draft` asks a smaller model."""
    tokens: int
    """Tokens guessed at a time, 1 to 16."""
    weights: NotRequired[str]
    """`gs://BUCKET/PATH` of the draft model; needed for `draft`, refused otherwise."""


class ModelServerArgs(TypedDict):
    """Inputs of `ModelServer`."""

    compute_classes: dict[str, str]
    """Compute class by kind of hardware: `tpu`, `gpu`; `any` for the dual-container form."""
    context_tokens: int
    """Longest prompt and answer together, in tokens."""
    model: str
    """Key of the model: Kubernetes names and labels are made of it."""
    namespace: str
    """Namespace of the servers, the same as the gateway's."""
    parameters_billion: float
    """Parameters of the model, in billions."""
    replicas: int
    """Replicas at the start; the autoscaler owns the number from then on."""
    rungs: list[RungArgs]
    """The rungs of the classes, in order: they decide flags, chips and tolerations."""
    service_account: str
    """Kubernetes service account that may read the buckets."""
    weights: str
    """`gs://BUCKET/PATH` of the model, whose versions are folders in it, or
    `gs://BUCKET/PATH@VERSION`."""
    adapter_rank: NotRequired[int]
    """Largest rank of the adapters. Default 16."""
    adapters: NotRequired[dict[str, str]]
    """LoRA adapters: name to `gs://BUCKET/PATH`."""
    block_size: NotRequired[int]
    """Tokens of a KV-cache block. Default: the engine's; the picker reads it from the engine."""
    cache_bucket: NotRequired[str]
    """Bucket for compiled programs; required with a TPU rung. The account must write to it."""
    engine: NotRequired[str]
    """`vllm` (default), `sglang`, `triton`, `tgi` or `diffusion`."""
    engine_args: NotRequired[dict[str, str]]
    """Other flags of the engine, by name without the leading dashes, such as
    `max-num-batched-tokens`; a flag without a value is `true`. Those that the platform sets are
    refused."""
    engine_env: NotRequired[dict[str, str]]
    """Other environment variables of the engine. Those that the platform sets are refused."""
    form: NotRequired[str]
    """`paired` (default with TPU and GPU rungs), `dual-container`, or `single`."""
    has_gate: NotRequired[bool]
    """Whether the namespace has a `WeightsGate`: the servers begin with no replica, and it starts
    `replicas` once the weights are there. Default false."""
    image_queue: NotRequired[int]
    """Task `image`: pictures that may wait for a replica. Default 64."""
    image_sizes: NotRequired[list[str]]
    """Task `image`: sizes that may be drawn, such as `1024x1024`, which is the default."""
    image_steps: NotRequired[int]
    """Task `image`: denoising steps where a request does not say. Default: as the model wants."""
    kv_cache_dtype: NotRequired[str]
    """Number format of the KV cache, such as `fp8`. Default: the model's."""
    live_adapters: NotRequired[LiveAdaptersArgs]
    """LoRA adapters that are uploaded while it serves. Default: none but `adapters`."""
    longest_request_seconds: NotRequired[int]
    """How long a pod that must go may finish what it answers. Default 300."""
    max_batch: NotRequired[int]
    """Most requests computed at once. Default: the engine's."""
    prefix_caching: NotRequired[bool]
    """Whether the KV cache of a prompt's beginning serves the next one. Default true."""
    quantization: NotRequired[str]
    """How the weights are quantized, such as `fp8`. Default: as the model says."""
    role: NotRequired[str]
    """`prefill` or `decode`: one half of a model whose prompts are computed apart from its answers.
    Two servers of one `model` with one role each belong together. Default: both in one replica."""
    served_name: NotRequired[str]
    """Name clients use. Default: `model`."""
    spanning: NotRequired[str]
    """How a replica spans several hosts: `engine` (vLLM's own processes, default on GPU) or `ray`
    (the only one on TPU)."""
    speculative: NotRequired[SpeculativeArgs]
    """Speculative decoding. Default: none."""
    standby_replicas: NotRequired[int]
    """Paired only: GPU replicas kept warm. Default 1; 0 starts the first one on need: one is
    there at first, until the autoscaler finds that nothing needs it."""
    task: NotRequired[str]
    """`generate` (default), `embed` or `image`."""
    tensor_parallel: NotRequired[int]
    """Devices that one copy of the model is split over; with fewer than a replica has, it holds
    several copies. Default: all of them."""
    trace_percent: NotRequired[float]
    """Share of requests, 0 to 100, whose spans go to the cluster's collector, where the caller has
    not decided. Default: no spans, and no flag for them."""
    weight_bits: NotRequired[int]
    """Bits of one parameter as served. Default 16."""
    weights_claim: NotRequired[str]
    """Claim of a volume whose root is the model (Hyperdisk ML), read instead of the bucket."""


@dataclass(frozen=True)
class AdapterFolder:
    """A folder whose adapters are served as they come and go."""

    source: str
    """`gs://BUCKET/PATH`; with a claim, the path in it."""
    max_rank: int = 16
    slots: int = 8
    claim: str | None = None
    """Claim of a volume with the folder; None: it is in a bucket."""


@dataclass(frozen=True)
class Guessing:
    """Speculative decoding."""

    method: str
    """`ngram` or `draft`."""
    tokens: int
    weights: str | None = None
    """`gs://BUCKET/PATH` of the draft model."""


@dataclass(frozen=True)
class ServingIntent:
    """What is served, on which rungs, and how it is computed.

    Fields have the names of `ModelServerArgs`, which documents them; None is the engine's default.
    """

    model: str
    context_tokens: int
    parameters_billion: float
    weights: str
    rungs: Mapping[str, Rung]
    """Rungs by where their user wrote them, such as `rungs[0]`."""
    adapter_rank: int = 16
    adapters: Mapping[str, str] = field(default_factory=dict[str, str])
    block_size: int | None = None
    engine: str = "vllm"
    engine_args: Mapping[str, str] = field(default_factory=dict[str, str])
    engine_env: Mapping[str, str] = field(default_factory=dict[str, str])
    form: str = "single"
    image_queue: int | None = None
    image_sizes: tuple[str, ...] = ()
    image_steps: int | None = None
    kv_cache_dtype: str | None = None
    live_adapters: AdapterFolder | None = None
    longest_request_seconds: int = 300
    max_batch: int | None = None
    prefix_caching: bool = True
    quantization: str | None = None
    role: str | None = None
    served_name: str = ""
    spanning: str | None = None
    speculative: Guessing | None = None
    task: str = "generate"
    tensor_parallel: int | None = None
    trace_percent: float | None = None
    weight_bits: float = 16

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of hardware it may run on, TPU first."""
        here = {rung.kind for rung in self.rungs.values()}
        return tuple(kind for kind in ("tpu", "gpu") if kind in here)

    @property
    def groups(self) -> dict[str, str]:
        """For each kind of hardware whose replica spans hosts, where such a rung was written."""
        found: dict[str, str] = {}
        for place, rung in self.rungs.items():
            if rung.is_multi_host:
                found.setdefault(rung.kind, place)
        return found


def intent_of(args: Mapping[str, Any], rungs: Mapping[str, Rung]) -> ServingIntent:
    """Return what somebody means to serve.

    Args:
        args: In the words of `ModelServerArgs`; what says where the objects go is not looked at.
        rungs: Checked rungs by where their user wrote them.

    Raises:
        InputError: A field is out of its range or not one of its words.
    """
    kinds = {rung.kind for rung in rungs.values()}
    return ServingIntent(
        adapter_rank=whole(args, "adapter_rank", 1, 512, default=16),
        adapters=dict(args.get("adapters") or {}),
        block_size=optional(args, "block_size", 1, 4096),
        context_tokens=whole(args, "context_tokens", 1, 10_000_000),
        engine=str(given(args, "engine", "vllm")),
        engine_args=_texts(args.get("engine_args")),
        engine_env=_texts(args.get("engine_env")),
        form=one_of(args, "form", FORMS) or ("paired" if len(kinds) > 1 else "single"),
        image_queue=optional(args, "image_queue", 1, 10_000),
        image_sizes=tuple(args.get("image_sizes") or ()),
        image_steps=optional(args, "image_steps", 1, 100),
        kv_cache_dtype=args.get("kv_cache_dtype"),
        live_adapters=_live_adapters(args.get("live_adapters")),
        longest_request_seconds=whole(args, "longest_request_seconds", 1, 3600, default=300),
        max_batch=optional(args, "max_batch", 1, 4096),
        model=str(args["model"]),
        parameters_billion=positive(args, "parameters_billion"),
        prefix_caching=bool(given(args, "prefix_caching", True)),
        quantization=args.get("quantization"),
        role=one_of(args, "role", ROLES),
        rungs=dict(rungs),
        served_name=str(given(args, "served_name", args["model"])),
        spanning=one_of(args, "spanning", SPANNING),
        speculative=_speculative(args.get("speculative")),
        task=one_of(args, "task", TASKS) or "generate",
        tensor_parallel=optional(args, "tensor_parallel", 1, 4096),
        trace_percent=percent(args, "trace_percent"),
        weight_bits=positive(args, "weight_bits", 16),
        weights=str(args["weights"]),
    )


def _live_adapters(folder: Mapping[str, Any] | None) -> AdapterFolder | None:
    if folder is None:
        return None
    where = "live_adapters."
    rank = given(folder, "max_rank", 16)
    if rank not in RANKS:
        raise InputError(f"{where}max_rank", f"must be one of {', '.join(map(str, RANKS))}", rank)
    slots = whole(folder, "slots", 1, 64, default=8, where=where)
    return AdapterFolder(str(folder["source"]), int(rank), slots, folder.get("claim"))


def _speculative(guess: Mapping[str, Any] | None) -> Guessing | None:
    if guess is None:
        return None
    tokens = whole(guess, "tokens", 1, 16, where="speculative.")
    return Guessing(str(guess["method"]), tokens, guess.get("weights"))


def _texts(values: Mapping[str, Any] | None) -> dict[str, str]:
    """Return values as a command line has them; YAML's true is `true`."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in (values or {}).items()
    }
