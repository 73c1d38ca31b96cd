"""The intent of a served model: one representation for stacks and `ModelServer`.

It holds the settings that both share. Rules across fields, and limits of engines and hardware, are
in `rules` and the modules that it names. Nothing here needs Pulumi.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, NotRequired, TypedDict

from pydantic import Field

from gke_inference.catalogue.engines import DEFAULT_ENGINE, EngineName
from gke_inference.catalogue.hardware import KINDS
from gke_inference.catalogue.rung_settings import RungArgs
from gke_inference.catalogue.rungs import Rung
from gke_inference.settings.size import Size
from gke_inference.sizing.memory import size_gib

from .adapter_settings import DEFAULT_RANK, AdapterFolder, AdapterRank
from .diffusion_settings import FurtherModel, ImageGeneration, Videos
from .expert_settings import Experts
from .replicas import ReplicaRange
from .settings import NO_CONTEXT, EngineSettings, ReplicaCount, RequestSeconds, ServedContext
from .words import Form, Role, Spanning, Task


class ModelServerArgs(TypedDict):
    """Inputs of `ModelServer`."""

    compute_classes: dict[str, str]
    """Compute class by hardware kind: `tpu`, `gpu`, or `any` for the forms with one pod for both,
    `dra` and `dual-container`."""
    model: str
    """Key of the model, used in Kubernetes names and labels."""
    namespace: str
    """Namespace of the servers, which must be that of the gateway."""
    replicas: ReplicaRange
    """Replicas of the model. The servers start with the minimum, but at least one, and the
    autoscaler manages their number afterwards. With `spanning: kuberay`, there are as many Ray
    clusters as the maximum, with suspended ones."""
    rungs: Annotated[list[RungArgs], Field(min_length=1)]
    """Rungs of the classes, in order. They determine flags, chips and tolerations."""
    service_account: str
    """Kubernetes service account that may read the buckets."""
    size: Size
    """Size of the weights, which determines the accelerators that can hold the model."""
    weights: str
    """`gs://BUCKET/PATH` of the model, with a folder per version, or `gs://BUCKET/PATH@VERSION`."""
    adapter_rank: NotRequired[AdapterRank]
    """Maximum rank of `adapters`. Default: 16."""
    adapters: NotRequired[dict[str, str]]
    """LoRA adapters: name to `gs://BUCKET/PATH`."""
    autopilot: NotRequired[bool]
    """Whether the cluster is in Autopilot mode, which limits GKE's sidecar. Default: false."""
    buffer_replicas: NotRequired[ReplicaCount]
    """Number of replicas for which GKE keeps nodes ready and empty, at full price: a CapacityBuffer
    for the Deployment, or for the TPU Deployment of form `paired`. Needs GKE 1.35.2 or later, and
    rungs with one host per replica. Default: 0."""
    cache_bucket: NotRequired[str]
    """Bucket for compiled programs, which the service account must be able to write to. Required
    with a TPU rung."""
    context: NotRequired[ServedContext]
    """Maximum length of prompt and answer together, in tokens. For Stable Diffusion XL, 77. For
    Wan 2.1, at most 512. Required, except with task `predict`."""
    engine: NotRequired[EngineName]
    """Inference server that runs the model. Default: `vllm`."""
    experts: NotRequired[Experts]
    """Expert parallelism over all devices of a replica; `settings.tensor_parallel` is then 1 by
    default. Default: none, experts are sharded like all other weights."""
    form: NotRequired[Form]
    """Form of the pods on TPU and GPU. Default: `paired` with TPU and GPU rungs, else `single`."""
    has_gate: NotRequired[bool]
    """Whether the namespace has a `WeightsGate`: the servers start with zero replicas, and it
    scales them to `replicas.min`, or 1 if that is 0, once the weights are available. Default:
    false."""
    images: NotRequired[ImageGeneration]
    """Task `image`: sizes, steps, queue and further models."""
    kv_claim: NotRequired[str]
    """Volume claim of `settings.kv_offload.shared`, such as that of a `SharedFolder` or a
    `LustreFolder`, to which all replicas can write."""
    grpc: NotRequired[bool]
    """Whether a predictive model also answers gRPC, on port 8001. Default: false."""
    live_adapters: NotRequired[AdapterFolder]
    """LoRA adapters that are uploaded while it serves. Default: none."""
    longest_request_seconds: NotRequired[RequestSeconds]
    """Time that a terminating pod has to finish its requests, in seconds. Default: 300."""
    role: NotRequired[Role]
    """One role in disaggregated serving. Two servers of one `model`, one per role, belong together.
    Default: none, each replica does both."""
    served_name: NotRequired[str]
    """Name that clients use. Default: `model`."""
    settings: NotRequired[EngineSettings]
    """Settings of the engine. Default: those of the engine."""
    spanning: NotRequired[Spanning]
    """How a replica spans several hosts: `engine` (vLLM's own processes, default on GPU), `ray`
    (the only option on TPU), or `kuberay` (GPU only), which is Ray in a cluster that KubeRay
    creates."""
    standby_replicas: NotRequired[ReplicaCount]
    """Paired only: warm GPU replicas. With 0, the first one starts on demand; one replica runs
    initially, until the autoscaler removes it as unneeded. Default: 1."""
    task: NotRequired[Task]
    """Kind of output: tokens, embeddings, images, videos, or the tensors of a predictive model.
    Default: `generate`."""
    trace_percent: NotRequired[Annotated[float, Field(ge=0, le=100)]]
    """Percentage of requests whose spans go to the cluster's collector, unless the caller has
    decided. Default: no tracing."""
    videos: NotRequired[Videos]
    """Task `video`: sizes, frames, steps and queue."""
    weights_bucket_claim: NotRequired[str]
    """Claim of the bucket with the weights, such as that of a `FuseVolume` with a profile, where
    they are read as files. Default: a mount with the platform's own options."""
    weights_claim: NotRequired[str]
    """Volume claim whose root is the model (Hyperdisk ML), read instead of the bucket. Further
    models of `images` are read from the bucket. Default: none."""


@dataclass(frozen=True)
class ServingIntent:
    """What is served, on which rungs, with which settings.

    Fields have the names of `ModelServerArgs`, which documents them. None means the engine's
    default.
    """

    model: str
    size: Size
    weights: str
    rungs: Mapping[str, Rung]
    """Rungs by their input path, such as `rungs[0]`."""
    adapter_rank: AdapterRank | None = None
    adapters: Mapping[str, str] = field(default_factory=dict[str, str])
    buffer_replicas: int = 0
    context: int = NO_CONTEXT
    engine: str = DEFAULT_ENGINE
    experts: Experts | None = None
    form: Form = Form.SINGLE
    images: ImageGeneration | None = None
    kv_claim: str | None = None
    grpc: bool = False
    live_adapters: AdapterFolder | None = None
    longest_request_seconds: int = 300
    role: Role | None = None
    served_name: str = ""
    settings: EngineSettings = field(default_factory=EngineSettings)
    spanning: Spanning | None = None
    task: Task = Task.GENERATE
    trace_percent: float | None = None
    videos: Videos | None = None
    weights_bucket_claim: str | None = None
    weights_claim: str | None = None

    @property
    def kinds(self) -> tuple[str, ...]:
        """Hardware kinds that it may run on, in the order of `KINDS`."""
        here = {rung.kind for rung in self.rungs.values()}
        return tuple(kind for kind in KINDS if kind in here)

    @property
    def split(self) -> int | None:
        """Devices of one copy of the layers that are not experts, or None for all of a stage."""
        return self.settings.tensor_parallel or (None if self.experts is None else 1)

    @property
    def rank(self) -> int:
        """Maximum rank of `adapters`."""
        return DEFAULT_RANK if self.adapter_rank is None else self.adapter_rank

    @property
    def generated(self) -> ImageGeneration | Videos | None:
        """What a diffusion model generates, with defaults if not given; None for other models."""
        match self.task:
            case Task.IMAGE:
                return self.images or ImageGeneration()
            case Task.VIDEO:
                return self.videos or Videos()
            case _:
                return None

    @property
    def further_models(self) -> Mapping[str, FurtherModel]:
        """Image models that the servers of this one also serve."""
        return {} if self.images is None else self.images.models

    @property
    def chips_by_model(self) -> Mapping[str, int]:
        """Chips of a replica that hold one model alone, by its name; none if each holds all."""
        return {} if self.images is None else self.images.chips_by_model(self.served_name)

    @property
    def gib(self) -> float:
        """Size of the weights of all its models, as served."""
        sizes = (self.size, *(each.size for each in self.further_models.values()))
        return sum(map(size_gib, sizes))

    @property
    def bucket_gib(self) -> float:
        """Size of those that servers read from the bucket: with a claim, of the further ones."""
        return self.gib if self.weights_claim is None else self.gib - size_gib(self.size)

    @property
    def groups(self) -> dict[str, str]:
        """Input path of a multi-host rung, for each hardware kind whose replicas span hosts."""
        found: dict[str, str] = {}
        for place, rung in self.rungs.items():
            if rung.is_multi_host:
                found.setdefault(rung.kind, place)
        return found


def intent_of(args: Mapping[str, Any], rungs: Mapping[str, Rung]) -> ServingIntent:
    """Return the intent in the inputs of a model server.

    Args:
        args: Inputs of `ModelServerArgs` with their types. Those about object placement are
            ignored.
        rungs: Validated rungs by their input path.
    """
    names = {each.name for each in fields(ServingIntent)}
    kinds = {rung.kind for rung in rungs.values()}
    defaults: dict[str, Any] = {
        "form": Form.PAIRED if len(kinds) > 1 else Form.SINGLE,
        "served_name": args["model"],
    }
    given = {name: value for name, value in args.items() if name in names and value is not None}
    own: dict[str, Any] = {**defaults, **given, "rungs": dict(rungs)}
    return ServingIntent(**own)
