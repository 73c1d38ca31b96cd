"""Models of a stack, with their capacity and limits."""

from pydantic import Field

from gke_inference.backends.settings import WaitLimits
from gke_inference.catalogue.engines import DEFAULT_ENGINE, EngineName, engine
from gke_inference.gateway.settings import (
    PRIORITY,
    MeanTokens,
    Priority,
    RequestPercent,
    RequestsPerSecond,
    SessionHeader,
    SessionIdleSeconds,
)
from gke_inference.intent import adapter_settings
from gke_inference.intent.adapter_settings import AdapterRank
from gke_inference.intent.diffusion_settings import FurtherModel, ImageGeneration, Videos
from gke_inference.intent.expert_settings import Experts
from gke_inference.intent.replicas import ReplicaRange
from gke_inference.intent.settings import NO_CONTEXT, ReplicaCount, RequestSeconds, ServedContext
from gke_inference.intent.words import Form, Spanning, Task
from gke_inference.observability.demanded import DemandSeconds
from gke_inference.serving.settings import (
    SCALE_IN_DELAY_SECONDS,
    SCALE_IN_EVERY_SECONDS,
    ScaleInDelay,
    ScaleInInterval,
    ScalingTargets,
)
from gke_inference.settings import Settings, Word
from gke_inference.settings.fields import (
    AdapterFolder,
    ModelName,
    Name,
    RegionName,
    Version,
    Weights,
    Zone,
)
from gke_inference.settings.size import Size
from gke_inference.storage.settings import DiskGib, DiskThroughput
from infra.stack.backends import Fallback
from infra.stack.disaggregation import Disaggregated
from infra.stack.engines import EngineSettings


class FromZero(WaitLimits):
    """How requests start a model that has no replica, and when it goes back to none."""

    idle_seconds: DemandSeconds = 900
    """Seconds without a request after which the last replica goes, after
    `scale_in_delay_seconds`."""


class Replicas(ReplicaRange):
    """Replicas of a model in each of its regions."""

    min: ReplicaCount
    """Minimum number of replicas. With 0, requests wait for the first one, as `from_zero` says."""
    from_zero: FromZero | None = None
    """With `min: 0`: the limits of requests that wait for the first replica. By default, those of
    its fields."""
    hold: WaitLimits | None = None
    """With `min` of at least 1: requests wait, within these limits, while no replica is ready, for
    example because the only one was killed. By default, they get 503."""
    standby: ReplicaCount | None = None
    """Paired form only: warm replicas on the GPU rungs (default 1); with 0, the first one starts
    when it is needed."""
    buffer: ReplicaCount = 0
    """Replicas for which GKE keeps nodes ready and empty, at full price, on the first rungs with
    capacity: a capacity buffer. In the paired form, on the TPU rungs; with prefill and decode
    disaggregated, for decode."""
    scale_in_delay_seconds: ScaleInDelay = SCALE_IN_DELAY_SECONDS
    """Time in seconds that a replica must be unneeded before the autoscaler removes it."""
    scale_in_every_seconds: ScaleInInterval = SCALE_IN_EVERY_SECONDS
    """Seconds between the removal of two replicas; each replica is drained during this time."""


class Slo(Settings):
    """Latency objectives of a model."""

    ttft_p95_ms: int | None = Field(default=None, ge=1)
    """Time to the first token, 95th percentile, in milliseconds."""
    tpot_p95_ms: int | None = Field(default=None, ge=1)
    """Time per output token after the first, 95th percentile, in milliseconds."""
    cold_start_s: int | None = Field(default=None, ge=1)
    """Time from the request for a replica to its first answer, in seconds; `coldstart` warns if it
    is exceeded."""


class Peak(Settings):
    """Most requests of a model in a region, which determine the size of its picker."""

    requests_per_second: RequestsPerSecond
    """Requests that begin in a second."""
    prompt_tokens: MeanTokens
    """Mean number of tokens of a prompt."""
    answer_tokens: MeanTokens = 500
    """Mean number of tokens of an answer."""


class Sessions(Settings):
    """Sends the requests of a session to the replica that answered its last one."""

    header: SessionHeader = "x-session-id"
    """Header of a request with the id of its session."""
    idle_seconds: SessionIdleSeconds = 300
    """Time in seconds after which an unused session is forgotten."""


class Routing(Settings):
    """How the picker chooses replicas. Requires `gateway.picker: llm-d-router`."""

    predicted_latency: bool = False
    """Whether the picker predicts the latency of each request on each replica. Requests may name
    objectives in the headers `x-llm-d-slo-ttft-ms` and `x-llm-d-slo-tpot-ms`; those of a negative
    priority are rejected if no replica can meet them. All replicas must have the same hardware, and
    answers must be streamed."""
    sessions: Sessions | None = None
    """Session affinity. A replica that is gone is replaced by the best of the others."""


class Disk(Settings):
    """A read-only Hyperdisk ML with the weights, shared by every replica of a region."""

    size_gib: DiskGib
    """Size of the disk."""
    throughput_mib_per_second: DiskThroughput
    """Provisioned throughput, shared by all replicas that read the disk."""
    snapshot: str = Field(min_length=1)
    """Snapshot with the weights at its root: a name, or projects/P/global/snapshots/NAME."""
    zones: tuple[Zone, ...] = Field(min_length=1)
    """Zones with a disk; replicas run only in these zones."""


class Canary(Settings):
    """A second version of a model, tested with a share of its requests."""

    version: Version
    """Name of the version. It answers every request whose header x-model-version has this value,
    regardless of its share."""
    weights: Weights
    """Weights of the canary, in the same form as those of a model; adapters are read from
    adapters/NAME next to them."""
    percent: RequestPercent = 0
    """Share of the requests, in percent. Raise it when a replica is ready; 0 rolls back."""
    replicas: Replicas | None = None
    """Replicas of the canary in each region; by default the same as the model's."""
    engine: EngineName | None = None
    """Engine of the canary; by default the model's. With another engine, the canary may use the
    same weights as the model."""
    evaluation: Name | None = None
    """Evaluation of `optimization` that compares this canary with the stable version. `canary run`
    raises the share only if its last result is of these weights and within its tolerance."""
    settings: EngineSettings | None = None
    """Engine settings of the canary; by default those of the model, or the engine's own defaults if
    the engine differs."""


class AdapterPlace(Word):
    """Upload location of live adapters."""

    BUCKET = "bucket"
    FILESTORE = "filestore"
    LUSTRE = "lustre"


class LiveAdapters(adapter_settings.LiveAdapters):
    """LoRA adapters that you can add and remove while the model serves."""

    place: AdapterPlace = AdapterPlace.BUCKET
    """Location of the folder: `bucket`, next to the weights; `filestore`, on the share of
    `storage.filestore`; or `lustre`, on the instance of `storage.lustre`."""
    folder: AdapterFolder = "live-adapters"
    """Folder next to the weights, or under the model's name on Filestore or Lustre. Each folder in
    it is an adapter of that name."""


class Model(Settings):
    """One served model."""

    weights: Weights
    """Path in the platform's model bucket, or gs://BUCKET/PATH in an existing bucket. PATH@VERSION
    selects a version; by default a replica uses the current one."""
    capacity: Name
    """Name of the capacity that the model runs on."""
    replicas: Replicas
    """Replicas in each region."""
    autoscaling: ScalingTargets = ScalingTargets()
    """Targets of the autoscaler."""
    size: Size
    """Size of the weights, which determines the accelerators that can hold the model."""
    context: ServedContext = NO_CONTEXT
    """Maximum length of prompt and answer together, in tokens. Required, except with task
    `predict`, which has no tokens. For Stable Diffusion XL, 77.
    For Wan 2.1, at most 512. For a known language model on vLLM or SGLang, at most that of its
    published configuration, unless `engine_args` scale its positions."""
    engine: EngineName = DEFAULT_ENGINE
    """Inference server that runs the model."""
    settings: EngineSettings = EngineSettings()
    """Settings of the engine."""
    task: Task = Task.GENERATE
    """Kind of output: tokens, embeddings, images, videos, or the tensors of a predictive model
    (`predict`, with engine `tritonserver`)."""
    grpc: bool = False
    """Whether a model with task `predict` also answers gRPC. Requires `gateway.certificate`."""
    images: ImageGeneration | None = None
    """Sizes, steps and queue of a model that generates images; `context` is then the maximum length
    of the prompt."""
    videos: Videos | None = None
    """Sizes, frames, steps and queue of a model that generates videos; `context` is then the
    maximum length of the prompt."""
    form: Form | None = None
    """Form of the pods on TPU and GPU; by default `paired` on mixed capacity and `single`
    otherwise."""
    spanning: Spanning | None = None
    """Way in which a replica spans several hosts: `engine`, the engine's own processes (default on
    GPU); `ray`, the only option on TPU; or `kuberay`, a cluster of GKE's Ray operator (GPU
    only)."""
    slo: Slo | None = None
    """Latency objectives, shown with the model and used for alerts."""
    adapters: tuple[ModelName, ...] = ()
    """LoRA adapters. Each is read from adapters/NAME next to the weights and served under its own
    name."""
    adapter_rank: AdapterRank | None = None
    """Maximum rank of `adapters`, 16 by default; accelerator memory is reserved for it."""
    regions: tuple[RegionName, ...] | None = Field(default=None, min_length=1)
    """Regions that the model runs in; by default every region."""
    peak: Peak | None = None
    """Most requests in a region. Determines CPU and memory of the model's picker and the CPU of the
    body router. By default, the picker gets 0.5 CPU and 1 GiB."""
    routing: Routing | None = None
    """How the picker chooses replicas; by default by queues, KV cache, prefixes and adapters."""
    priority: Priority = PRIORITY
    """Priority when the queues are full: requests with a lower priority are shed first."""
    timeout_seconds: RequestSeconds = 480
    """Maximum time in seconds that the gateway waits for an answer. The autoscaler gives a pod ten
    minutes to end, so above 525 it cuts off the longest answers when it removes a node."""
    disaggregated: Disaggregated | None = None
    """Separate replicas that compute long prompts; `replicas` are then those that answer."""
    experts: Experts | None = None
    """Expert parallelism of a mixture of experts. By default, experts are sharded like all other
    weights."""
    disk: Disk | None = None
    """Hyperdisk ML that serves the weights instead of the bucket."""
    guardrails: tuple[Name, ...] = ()
    """Names of the guardrails that check prompts and answers of the model and its adapters."""
    live_adapters: LiveAdapters | None = None
    """Adapters that you can add and remove without a restart. A request names the adapter, and the
    model in the header X-Gateway-Base-Model-Name."""
    fallback: Fallback | None = None
    """Backend that answers while no engine has capacity."""
    canary: Canary | None = None
    """Second version that answers a share of the requests under the same names."""

    def adapter_names(self, name: str) -> tuple[str, ...]:
        """Return the names that requests use for the adapters of the model `name`."""
        form = engine(self.engine).adapter_name
        return tuple(form.format(model=name, adapter=adapter) for adapter in self.adapters)

    def weights_by_field(self) -> dict[str, str]:
        """Return the weights that its servers read, and those of its canary, by field."""
        guess, canary = self.settings.speculative, self.canary
        found = {
            "weights": self.weights,
            "canary.weights": None if canary is None else canary.weights,
            "settings.speculative.weights": None if guess is None else guess.weights,
            **{f"images.models.{n}.weights": m.weights for n, m in self.further_models.items()},
        }
        return {field: weights for field, weights in found.items() if weights is not None}

    @property
    def further_models(self) -> dict[str, FurtherModel]:
        """Image models that the servers of this one also serve."""
        return {} if self.images is None else self.images.models

    def other_names(self, name: str) -> tuple[str, ...]:
        """Return the names beside `name` that requests may use: adapters and further models."""
        return (*self.adapter_names(name), *self.further_models)

    @property
    def predicts_latency(self) -> bool:
        """Whether its picker predicts latencies."""
        return self.routing is not None and self.routing.predicted_latency

    @property
    def is_from_zero(self) -> bool:
        """Whether it has no replica while nobody needs it."""
        return self.replicas.min == 0

    @property
    def has_pool_relay(self) -> bool:
        """Whether a relay is a replica of its pool.

        It is the model's fallback, or requests wait in it for a replica.
        """
        return self.fallback is not None or self.waits is not None

    @property
    def waits(self) -> WaitLimits | None:
        """The limits of requests that wait while no replica is ready, or None if none waits."""
        return self.from_zero if self.is_from_zero else self.replicas.hold

    @property
    def from_zero(self) -> FromZero:
        """The limits of requests that wait for its first replica, if it is from zero."""
        return self.replicas.from_zero or FromZero()

    @property
    def sizes(self) -> tuple[Size, ...]:
        """Sizes of everything that a server holds: the model, then the further models."""
        return (self.size, *(each.size for each in self.further_models.values()))
