"""Models: what is served, on which capacity, and within which limits."""

from enum import StrEnum
from typing import Literal

from pydantic import Field

from gke_inference.catalogue.engines import engine
from infra.stack.base.fields import (
    AdapterFolder,
    ModelName,
    Name,
    RegionName,
    StackModel,
    Version,
    Weights,
    Zone,
)
from infra.stack.disaggregation import Disaggregated
from infra.stack.edge.backends import Fallback
from infra.stack.engines import Engine, EngineSettings
from infra.stack.pictures import Pictures


class Form(StrEnum):
    """How one model becomes pods on TPU and GPU."""

    SINGLE = "single"
    PAIRED = "paired"
    DUAL_CONTAINER = "dual-container"


class Spanning(StrEnum):
    """How a replica spans several hosts."""

    ENGINE = "engine"
    RAY = "ray"


class Task(StrEnum):
    """What a model answers with."""

    GENERATE = "generate"
    EMBED = "embed"
    IMAGE = "image"


class Replicas(StackModel):
    """How many replicas a model has in each of its regions."""

    min: int = Field(ge=1, le=1000)
    """Replicas that always run."""
    max: int = Field(ge=1, le=1000)
    """Replicas the autoscaler may reach."""
    standby: int | None = Field(default=None, ge=0, le=1000)
    """Paired only: warm replicas on the GPU rungs, 1 by default; 0 starts the first on need."""
    scale_in_delay_seconds: int = Field(default=300, ge=0, le=3600)
    """How long a replica must be of no use before the autoscaler takes it away."""
    scale_in_every_seconds: int = Field(default=120, ge=1, le=1800)
    """Time between two replicas that are taken away; each is drained meanwhile."""


class Autoscaling(StackModel):
    """What each replica should have to do; whichever asks for more replicas is followed."""

    queue_depth: int = Field(default=5, ge=1, le=10_000)
    """Requests that wait, per replica: for throughput and cost."""
    kv_cache_percent: int = Field(default=80, ge=10, le=95)
    """Use of the KV cache, on average: for long contexts."""
    running_requests: int | None = Field(default=None, ge=1, le=10_000)
    """Requests in the batch, per replica: for latency. By default the batch is not looked at."""


class Size(StackModel):
    """What the weights of a model weigh."""

    parameters_billion: float = Field(gt=0, le=10_000)
    """Parameters, in billions."""
    bits: int = Field(default=16, ge=4, le=32)
    """Bits of one parameter as served: 16, or 8 or 4 when quantized."""


class Slo(StackModel):
    """The latency a model promises."""

    ttft_p95_ms: int | None = Field(default=None, ge=1)
    """Time to the first token, 95th percentile, in milliseconds."""
    tpot_p95_ms: int | None = Field(default=None, ge=1)
    """Time for each further token, 95th percentile, in milliseconds."""
    cold_start_s: int | None = Field(default=None, ge=1)
    """Time from wanting a replica to its first answer, in seconds; `coldstart` warns beyond it."""


class Disk(StackModel):
    """A read-only Hyperdisk ML with the weights, shared by every replica of a region."""

    size_gib: int = Field(ge=4, le=65_536)
    """Size of the disk."""
    throughput_mib_per_second: int = Field(ge=400, le=1_200_000)
    """Provisioned throughput, shared by all readers."""
    snapshot: str = Field(min_length=1)
    """Snapshot with the weights at its root: a name, or projects/P/global/snapshots/NAME."""
    zones: tuple[Zone, ...] = Field(min_length=1)
    """Zones with a disk; replicas run only there."""


class Canary(StackModel):
    """A second version of a model, tried on a share of its requests before it takes over."""

    version: Version
    """Name of the version: a request with the header x-model-version of this value is answered by
    it, whatever its share."""
    weights: Weights
    """Its weights, as of a model; adapters are read from adapters/NAME beside them."""
    percent: int = Field(default=0, ge=0, le=100)
    """Share of the requests; raise it once a replica is ready, and 0 takes it back."""
    replicas: Replicas | None = None
    """Its replicas in each region; by default as many as the model has."""
    engine: Engine | None = None
    """Server it runs in; by default the model's. The weights may be the model's own then."""
    settings: EngineSettings | None = None
    """How its engine computes; by default as the model's in the same engine, and as the engine's
    own defaults say in another."""


class AdapterPlace(StrEnum):
    """Where live adapters are uploaded to."""

    BUCKET = "bucket"
    FILESTORE = "filestore"


class LiveAdapters(StackModel):
    """LoRA adapters that are uploaded to a folder while the model serves."""

    place: AdapterPlace = AdapterPlace.BUCKET
    """`bucket`, beside the weights; or `filestore`, in the folder of `storage.filestore`."""
    folder: AdapterFolder = "live-adapters"
    """Folder beside the weights, or under the model's name on Filestore; each folder in it is an
    adapter of that name."""
    max_rank: Literal[1, 8, 16, 32, 64, 128, 256, 320, 512] = 16
    """Largest rank: memory of the accelerator is set aside for it."""
    slots: int = Field(default=8, ge=1, le=64)
    """Different adapters that one batch may hold; four times as many stay in main memory."""


class Model(StackModel):
    """One served model."""

    weights: Weights
    """Path in the platform's model bucket, or gs://BUCKET/PATH of a bucket that exists.
    PATH@VERSION names a version; by default a replica takes the one that is current."""
    capacity: Name
    """Name of the capacity it runs on."""
    replicas: Replicas
    """Replicas in each region."""
    autoscaling: Autoscaling = Autoscaling()
    """What the number of replicas follows."""
    size: Size
    """Weight of the model, from which follows what can hold it."""
    context: int = Field(ge=256, le=10_000_000)
    """Longest prompt and answer together, in tokens."""
    engine: Engine = Engine.VLLM
    """Server the model runs in."""
    settings: EngineSettings = EngineSettings()
    """How the engine computes."""
    task: Task = Task.GENERATE
    """What it answers with: tokens, embeddings or pictures."""
    pictures: Pictures | None = None
    """Sizes, steps and queue of a model that draws; `context` is then the longest prompt."""
    form: Form | None = None
    """Pods on TPU and GPU; by default paired on mixed capacity and single otherwise."""
    spanning: Spanning | None = None
    """How a replica spans several hosts: the engine's own way (default on GPU), or Ray, which is
    the only one on TPU."""
    slo: Slo | None = None
    """Latency it promises; shown with the model, and alerted on."""
    adapters: tuple[ModelName, ...] = ()
    """LoRA adapters, each served under its own name from adapters/NAME beside the weights."""
    regions: tuple[RegionName, ...] | None = Field(default=None, min_length=1)
    """Regions it runs in; every region by default."""
    priority: int = Field(default=10, ge=0, le=1_000_000)
    """Precedence when the queues are full: the higher is served, the lower is shed."""
    timeout_seconds: int = Field(default=480, ge=1, le=3600)
    """Longest answer the gateway waits for. Above 525 the autoscaler, which gives a pod ten minutes
    to end, cuts the longest answers when it takes a node away."""
    disaggregated: Disaggregated | None = None
    """Computes long prompts on replicas of their own; `replicas` are then those that answer."""
    disk: Disk | None = None
    """Serves the weights from a Hyperdisk ML instead of the bucket."""
    guardrails: tuple[Name, ...] = ()
    """Guardrails that check its prompts and answers, by name, those of its adapters as well."""
    live_adapters: LiveAdapters | None = None
    """Adapters that come and go without a restart; a request names one, and its model in the header
    X-Gateway-Base-Model-Name."""
    fallback: Fallback | None = None
    """A backend that answers while no engine has room."""
    canary: Canary | None = None
    """A second version that answers a share of the requests under the same names."""

    def adapter_names(self, name: str) -> tuple[str, ...]:
        """Return how requests name the adapters, where the model is called `name`."""
        form = engine(self.engine.value).adapter_name
        return tuple(form.format(model=name, adapter=adapter) for adapter in self.adapters)
