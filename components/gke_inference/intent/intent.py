"""The intent of a served model: one representation for stacks and `ModelServer`.

Both translate into `intent_of`, which validates single fields. Rules across fields, and limits of
engines and hardware, are in `rules` and `engine_rules`. Nothing here needs Pulumi.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NotRequired, TypedDict

from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.rung_settings import RungArgs
from gke_inference.catalogue.rungs import Rung
from gke_inference.intent.image_models import ImageModel, ImageModelArgs, image_models_of
from gke_inference.intent.kv_offload import KvOffload, KvOffloadArgs, kv_offload_of
from gke_inference.intent.prompts import Multimodal, MultimodalArgs, multimodal_of
from gke_inference.intent.readers import (
    given,
    one_of,
    optional,
    percent,
    positive,
    texts,
    whole,
    wholes,
)
from gke_inference.intent.speculation import Guessing, SpeculativeArgs, speculative_of

FORMS = ("dra", "dual-container", "paired", "single")
RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""Ranks that vLLM has kernels for: `--max-lora-rank` is a choice, not any number."""
DEFAULT_RANK = 16
"""vLLM's default of `--max-lora-rank`."""
ROLES = ("decode", "prefill")
ALL2ALL = {
    "decode": "deepep_low_latency",
    "prefill": "deepep_high_throughput",
    "serve": "allgather_reducescatter",
}
"""Default all-to-all backend by role (docs.vllm.ai serving/expert_parallel_deployment)."""
SPANNING = ("engine", "ray", "kuberay")
TASKS = ("embed", "generate", "image", "video")
COPIED_TASKS = ("image", "video")
"""Tasks of the image server, of which every chip holds a whole model."""


class LiveAdaptersArgs(TypedDict):
    """A folder whose adapters are loaded and unloaded as they come and go."""

    source: str
    """`gs://BUCKET/PATH`. Each folder in it with a configuration and weights is an adapter."""
    max_rank: NotRequired[int]
    """Maximum rank, which determines the memory use: 1, 8, 16 (default), 32, 64, 128, 256, 320 or
    512."""
    claim: NotRequired[str]
    """Volume claim with the folder, such as that of a `SharedFolder`; `source` is then the path in
    it. Default: none, the folder is in a bucket."""
    slots: NotRequired[int]
    """Different adapters that one batch may use, 1 to 64. Image models: adapters that each chip
    keeps. Default: 8."""


class ExpertsArgs(TypedDict):
    """Expert parallelism of a mixture of experts: each device holds some of the experts."""

    all2all: NotRequired[dict[str, str]]
    """All-to-all backend by role: `serve`, or `prefill` and `decode`, to one of
    `allgather_reducescatter` (default of `serve`), `deepep_high_throughput` (of `prefill`) and
    `deepep_low_latency` (of `decode`)."""
    hybrid_load_balancing: NotRequired[bool]
    """Whether every host of a replica accepts requests for its own devices. Otherwise, the leader
    accepts the requests of all. Default: true."""
    redundant: NotRequired[int]
    """Number of additional copies of busy experts, which the engine chooses. Default: 0."""


class ModelServerArgs(TypedDict):
    """Inputs of `ModelServer`."""

    compute_classes: dict[str, str]
    """Compute class by hardware kind: `tpu`, `gpu`, or `any` for the forms with one pod for both,
    `dra` and `dual-container`."""
    context_tokens: int
    """Maximum total length of prompt and answer, in tokens."""
    model: str
    """Key of the model, used in Kubernetes names and labels."""
    namespace: str
    """Namespace of the servers, which must be that of the gateway."""
    parameters_billion: float
    """Parameters of the model, in billions."""
    replicas: int
    """Initial number of replicas. The autoscaler manages it afterwards."""
    rungs: list[RungArgs]
    """Rungs of the classes, in order. They determine flags, chips and tolerations."""
    service_account: str
    """Kubernetes service account that may read the buckets."""
    weights: str
    """`gs://BUCKET/PATH` of the model, with a folder per version, or `gs://BUCKET/PATH@VERSION`."""
    adapter_rank: NotRequired[int]
    """Maximum rank of `adapters`: 1, 8, 16, 32, 64, 128, 256, 320 or 512. Default: 16."""
    adapters: NotRequired[dict[str, str]]
    """LoRA adapters: name to `gs://BUCKET/PATH`."""
    autopilot: NotRequired[bool]
    """Whether the cluster is in Autopilot mode, which limits GKE's sidecar. Default: false."""
    block_size: NotRequired[int]
    """Tokens per KV cache block, which the picker reads from the engine. Default: the engine's."""
    buffer_replicas: NotRequired[int]
    """Number of replicas for which GKE keeps nodes ready and empty, at full price: a CapacityBuffer
    for the Deployment, or for the TPU Deployment of form `paired`. Needs GKE 1.35.2 or later, and
    rungs with one host per replica. Default: 0."""
    cache_bucket: NotRequired[str]
    """Bucket for compiled programs, which the service account must be able to write to. Required
    with a TPU rung."""
    chat_template: NotRequired[str]
    """Text of the Jinja template that makes a prompt of a conversation. Default: the template in
    the weights."""
    engine: NotRequired[str]
    """`vllm` (default), `sglang`, `triton`, `tgi` or `diffusion`."""
    engine_args: NotRequired[dict[str, str]]
    """Additional engine flags, by name without the leading dashes, such as
    `max-num-batched-tokens`. A flag without a value is `true`. Flags that the platform sets are
    rejected."""
    engine_env: NotRequired[dict[str, str]]
    """Additional environment variables of the engine. Variables that the platform sets are
    rejected."""
    engine_secrets: NotRequired[dict[str, str]]
    """Environment variables of the engine with a secret of Secret Manager, as
    `projects/PROJECT/secrets/SECRET`. The service account must be able to read the latest version,
    which only the engine's process gets."""
    experts: NotRequired[ExpertsArgs]
    """Expert parallelism over all devices of a replica; `tensor_parallel` is then 1 by default.
    Default: none, experts are sharded like all other weights."""
    form: NotRequired[str]
    """`paired` (default with TPU and GPU rungs), `dual-container`, `dra`, or `single`."""
    has_gate: NotRequired[bool]
    """Whether the namespace has a `WeightsGate`: the servers start with zero replicas, and it
    scales them to `replicas` once the weights are available. Default: false."""
    image_models: NotRequired[dict[str, ImageModelArgs]]
    """Task `image`: further models, by the name that clients use. Each chip holds all models. They
    have the sizes, the queue and the step cache of the first, and no adapters. Default: none."""
    image_queue: NotRequired[int]
    """Tasks `image` and `video`: maximum number that wait for a replica. Default: 64."""
    image_sizes: NotRequired[list[str]]
    """Tasks `image` and `video`: allowed sizes. Default: `1024x1024`, and `832x480` for videos."""
    image_sigmas: NotRequired[list[float]]
    """Task `image`: noise level before each denoising step of a model that was distilled to a fixed
    schedule, descending, at most 1. Default: evenly spaced over the steps."""
    image_step_cache: NotRequired[float]
    """Task `image`: largest relative change of the first block's output for which a denoising step
    reuses the output of the other blocks from an earlier step, above 0 and below 1. Default: no
    caching."""
    image_steps: NotRequired[int]
    """Tasks `image` and `video`: denoising steps for requests that set none. Default: the
    model's."""
    kv_cache_dtype: NotRequired[str]
    """Data type of the KV cache, such as `fp8`. Default: the model's."""
    kv_offload: NotRequired[KvOffloadArgs]
    """KV cache beyond the accelerator's memory. Default: none."""
    live_adapters: NotRequired[LiveAdaptersArgs]
    """LoRA adapters that are uploaded while it serves. Default: none."""
    longest_request_seconds: NotRequired[int]
    """Time that a terminating pod has to finish its requests, in seconds. Default: 300."""
    max_batch: NotRequired[int]
    """Maximum number of requests per batch. Default: the engine's."""
    max_replicas: NotRequired[int]
    """Number of Ray clusters (`spanning: kuberay`), with suspended ones. Default: `replicas`."""
    multimodal: NotRequired[MultimodalArgs]
    """Limits of images, videos and audio in one prompt. Default: the engine's numbers, and media
    only as data URLs."""
    prefix_caching: NotRequired[bool]
    """Whether to reuse the KV cache of a prompt prefix for later prompts. Default: true."""
    quantization: NotRequired[str]
    """Quantization method of the weights, such as `fp8`. Default: as in the model's
    configuration."""
    role: NotRequired[str]
    """`prefill` or `decode`: one role in disaggregated serving. Two servers of one `model`, one per
    role, belong together. Default: none, each replica does both."""
    served_name: NotRequired[str]
    """Name that clients use. Default: `model`."""
    spanning: NotRequired[str]
    """How a replica spans several hosts: `engine` (vLLM's own processes, default on GPU), `ray`
    (the only option on TPU), or `kuberay` (GPU only), which is Ray in a cluster that KubeRay
    creates."""
    speculative: NotRequired[SpeculativeArgs]
    """Speculative decoding. Default: none."""
    standby_replicas: NotRequired[int]
    """Paired only: warm GPU replicas. With 0, the first one starts on demand; one replica runs
    initially, until the autoscaler removes it as unneeded. Default: 1."""
    task: NotRequired[str]
    """`generate` (default), `embed`, `image` or `video`."""
    tensor_parallel: NotRequired[int]
    """Number of devices that one copy of the model is sharded across. With fewer than a replica
    has, it runs several copies. Default: all."""
    trace_percent: NotRequired[float]
    """Percentage of requests, 0 to 100, whose spans go to the cluster's collector, unless the
    caller has decided. Default: no tracing."""
    video_frames: NotRequired[list[int]]
    """Task `video`: allowed numbers of frames, each 4k + 1. Default: 81."""
    weight_bits: NotRequired[int]
    """Bits per parameter as served. Default: 16."""
    weights_bucket_claim: NotRequired[str]
    """Claim of the bucket with the weights, such as that of a `FuseVolume` with a profile, where
    they are read as files. Default: a mount with the platform's own options."""
    weights_claim: NotRequired[str]
    """Volume claim whose root is the model (Hyperdisk ML), read instead of the bucket. Default:
    none."""


@dataclass(frozen=True)
class AdapterFolder:
    """A folder whose adapters are loaded and unloaded as they come and go."""

    source: str
    """`gs://BUCKET/PATH`, or with a claim the path in it."""
    max_rank: int = DEFAULT_RANK
    slots: int = 8
    claim: str | None = None
    """Volume claim with the folder, or None for a bucket."""


@dataclass(frozen=True)
class ExpertParallel:
    """Expert parallelism over all devices of a replica."""

    all2all: Mapping[str, str] = field(default_factory=dict[str, str])
    """All-to-all backend by role, where it is not the default."""
    hybrid_load_balancing: bool = True
    redundant: int = 0

    def backend(self, role: str | None) -> str:
        """Return the all-to-all backend of a role; None is a replica with both."""
        name = role or "serve"
        return self.all2all.get(name, ALL2ALL[name])


@dataclass(frozen=True)
class ServingIntent:
    """What is served, on which rungs, with which settings.

    Fields have the names of `ModelServerArgs`, which documents them. None means the engine's
    default.
    """

    model: str
    context_tokens: int
    parameters_billion: float
    weights: str
    rungs: Mapping[str, Rung]
    """Rungs by their input path, such as `rungs[0]`."""
    adapter_rank: int = DEFAULT_RANK
    adapters: Mapping[str, str] = field(default_factory=dict[str, str])
    block_size: int | None = None
    buffer_replicas: int = 0
    chat_template: str | None = None
    engine: str = "vllm"
    engine_args: Mapping[str, str] = field(default_factory=dict[str, str])
    engine_env: Mapping[str, str] = field(default_factory=dict[str, str])
    engine_secrets: Mapping[str, str] = field(default_factory=dict[str, str])
    experts: ExpertParallel | None = None
    form: str = "single"
    image_models: Mapping[str, ImageModel] = field(default_factory=dict[str, ImageModel])
    image_queue: int | None = None
    image_sizes: tuple[str, ...] = ()
    image_sigmas: tuple[float, ...] = ()
    image_step_cache: float | None = None
    image_steps: int | None = None
    kv_cache_dtype: str | None = None
    kv_offload: KvOffload | None = None
    live_adapters: AdapterFolder | None = None
    longest_request_seconds: int = 300
    max_batch: int | None = None
    multimodal: Multimodal | None = None
    prefix_caching: bool = True
    quantization: str | None = None
    role: str | None = None
    served_name: str = ""
    spanning: str | None = None
    speculative: Guessing | None = None
    task: str = "generate"
    tensor_parallel: int | None = None
    trace_percent: float | None = None
    video_frames: tuple[int, ...] = ()
    weight_bits: float = 16
    weights_bucket_claim: str | None = None
    weights_claim: str | None = None

    @property
    def kinds(self) -> tuple[str, ...]:
        """Hardware kinds that it may run on, TPU first."""
        here = {rung.kind for rung in self.rungs.values()}
        return tuple(kind for kind in ("tpu", "gpu") if kind in here)

    @property
    def split(self) -> int | None:
        """Devices of one copy of the layers that are not experts, or None for all of a stage."""
        return self.tensor_parallel or (None if self.experts is None else 1)

    @property
    def groups(self) -> dict[str, str]:
        """Input path of a multi-host rung, for each hardware kind whose replicas span hosts."""
        found: dict[str, str] = {}
        for place, rung in self.rungs.items():
            if rung.is_multi_host:
                found.setdefault(rung.kind, place)
        return found


def intent_of(args: Mapping[str, Any], rungs: Mapping[str, Rung]) -> ServingIntent:
    """Return the intent in the arguments of a model server.

    Args:
        args: Fields of `ModelServerArgs`. Those about object placement are ignored.
        rungs: Validated rungs by their input path.

    Raises:
        InputError: A field is out of its range or not one of its words.
    """
    kinds = {rung.kind for rung in rungs.values()}
    return ServingIntent(
        adapter_rank=_rank(args, "adapter_rank"),
        adapters=dict(args.get("adapters") or {}),
        block_size=optional(args, "block_size", 1, 4096),
        buffer_replicas=whole(args, "buffer_replicas", 0, 1000, default=0),
        chat_template=args.get("chat_template"),
        context_tokens=whole(args, "context_tokens", 1, 10_000_000),
        engine=str(given(args, "engine", "vllm")),
        engine_args=texts(args, "engine_args"),
        engine_env=texts(args, "engine_env"),
        engine_secrets=texts(args, "engine_secrets"),
        experts=_experts(args.get("experts")),
        form=one_of(args, "form", FORMS) or ("paired" if len(kinds) > 1 else "single"),
        image_models=image_models_of(args.get("image_models")),
        image_queue=optional(args, "image_queue", 1, 10_000),
        image_sizes=tuple(args.get("image_sizes") or ()),
        image_sigmas=tuple(map(float, args.get("image_sigmas") or ())),
        image_step_cache=args.get("image_step_cache"),
        image_steps=optional(args, "image_steps", 1, 100),
        kv_cache_dtype=args.get("kv_cache_dtype"),
        kv_offload=kv_offload_of(args.get("kv_offload")),
        live_adapters=_live_adapters(args.get("live_adapters")),
        longest_request_seconds=whole(args, "longest_request_seconds", 1, 3600, default=300),
        max_batch=optional(args, "max_batch", 1, 4096),
        model=str(args["model"]),
        multimodal=multimodal_of(args.get("multimodal")),
        parameters_billion=positive(args, "parameters_billion"),
        prefix_caching=bool(given(args, "prefix_caching", True)),
        quantization=args.get("quantization"),
        role=one_of(args, "role", ROLES),
        rungs=dict(rungs),
        served_name=str(given(args, "served_name", args["model"])),
        spanning=one_of(args, "spanning", SPANNING),
        speculative=speculative_of(args.get("speculative")),
        task=one_of(args, "task", TASKS) or "generate",
        tensor_parallel=optional(args, "tensor_parallel", 1, 4096),
        trace_percent=percent(args, "trace_percent"),
        video_frames=wholes(args, "video_frames"),
        weight_bits=positive(args, "weight_bits", 16),
        weights=str(args["weights"]),
        weights_bucket_claim=args.get("weights_bucket_claim"),
        weights_claim=args.get("weights_claim"),
    )


def _rank(args: Mapping[str, Any], name: str, where: str = "") -> int:
    rank = given(args, name, DEFAULT_RANK)
    if rank not in RANKS:
        raise InputError(f"{where}{name}", f"must be one of {', '.join(map(str, RANKS))}", rank)
    return int(rank)


def _live_adapters(folder: Mapping[str, Any] | None) -> AdapterFolder | None:
    if folder is None:
        return None
    where = "live_adapters."
    rank = _rank(folder, "max_rank", where)
    slots = whole(folder, "slots", 1, 64, default=8, where=where)
    return AdapterFolder(str(folder["source"]), rank, slots, folder.get("claim"))


def _experts(parallel: Mapping[str, Any] | None) -> ExpertParallel | None:
    if parallel is None:
        return None
    where = "experts."
    backends: dict[str, str] = dict(parallel.get("all2all") or {})
    for role, backend in backends.items():
        if role not in ALL2ALL:
            rule = f"must be one of {', '.join(ALL2ALL)}"
            raise InputError(f"{where}all2all", rule, role)
        if backend not in ALL2ALL.values():
            rule = f"must be one of {', '.join(sorted(ALL2ALL.values()))}"
            raise InputError(f"{where}all2all.{role}", rule, backend)
    return ExpertParallel(
        all2all=backends,
        hybrid_load_balancing=bool(given(parallel, "hybrid_load_balancing", True)),
        redundant=whole(parallel, "redundant", 0, 4096, default=0, where=where),
    )
