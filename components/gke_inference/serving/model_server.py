"""A model on the platform: its servers on TPU and GPU, ready to stand behind one pool."""

from typing import Any, NotRequired, TypedDict, cast

import pulumi

from gke_inference.base.manifests import register
from gke_inference.catalogue.rungs import RungArgs, checked_input
from gke_inference.serving.launcher.spec import PORT
from gke_inference.serving.model_objects import deployments, disruption_budget, launcher_config
from gke_inference.serving.model_plan import ModelPlan, model_plan


class LiveAdaptersArgs(TypedDict):
    """A folder of a bucket whose adapters are served as they come and go."""

    source: str
    """`gs://BUCKET/PATH`: each folder in it with a configuration and weights is an adapter."""
    max_rank: NotRequired[int]
    """Largest rank: 1, 8, 16 (default), 32, 64, 128, 256, 320 or 512; memory grows with it."""
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
    """`gs://BUCKET/PATH` of the weights, in safetensors."""
    adapter_rank: NotRequired[int]
    """Largest rank of the adapters. Default 16."""
    adapters: NotRequired[dict[str, str]]
    """LoRA adapters: name to `gs://BUCKET/PATH`."""
    block_size: NotRequired[int]
    """Tokens of a KV-cache block. Default: the engine's; the picker reads it from the engine."""
    cache_bucket: NotRequired[str]
    """Bucket for compiled TPU programs; required with a TPU rung. The account must write to it."""
    engine: NotRequired[str]
    """`vllm` (default), `sglang`, `triton`, `tgi` or `diffusion`."""
    form: NotRequired[str]
    """`paired` (default with TPU and GPU rungs), `dual-container`, or `single`."""
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


class ModelServer(pulumi.ComponentResource):
    """Deployments of one engine for one model, in one of three forms.

    - `paired`: a TPU Deployment and a GPU Deployment with one label. The first holds the replicas;
      the second keeps a few warm and, through its autoscaler, gets one more for each replica of the
      first that has no node. GKE promises nothing here and need not: each pod asks for what it
      needs, and a stock-out is a Pending pod that is counted.
    - `dual-container`: one Deployment, see `serving.dual_container` for what that costs.
    - `single`: rungs of one kind, one Deployment.

    Where a rung spans several hosts, its Deployment is a LeaderWorkerSet (see `serving.groups`):
    the cluster needs a `LeaderWorkerSetOperator`.
    """

    deployments: dict[str, str]
    """Deployment name by kind of hardware: `tpu`, `gpu`, or `any`."""
    labels: dict[str, str]
    """Labels an InferencePool selects."""
    placements: list[str]
    """Rungs the model may run on, such as `tpu-v6e 2x2 reservation`."""
    port: int
    """Port of the OpenAI API and of `/metrics`."""
    target_kinds: dict[str, str]
    """What each of `deployments` is: `Deployment` or `LeaderWorkerSet`, by kind of hardware."""
    served_names: list[str]
    """Names clients may use: the model, then its adapters."""

    def __init__(
        self, name: str, args: ModelServerArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:ModelServer", name, {}, opts)
        plan = _checked(args)
        # The autoscaler owns the number of replicas once the Deployment exists.
        scaled = pulumi.ResourceOptions(parent=self, ignore_changes=["spec.replicas"])
        built = _built(plan)
        own = pulumi.ResourceOptions(parent=self)
        config = register(f"{name}-launcher", launcher_config(plan), own)
        behind = pulumi.ResourceOptions.merge(scaled, pulumi.ResourceOptions(depends_on=[config]))
        for kind, deployment in built.items():
            register(f"{name}-{kind}", deployment, behind)
        register(f"{name}-budget", disruption_budget(plan), own)
        self.deployments = plan.deployments
        self.labels = plan.pod.labels
        self.placements = plan.placements
        self.port = PORT
        self.served_names = list(plan.served_names)
        self.target_kinds = plan.target_kinds
        self.register_outputs(
            {
                "deployments": self.deployments,
                "labels": self.labels,
                "placements": self.placements,
                "port": self.port,
                "servedNames": self.served_names,
                "targetKinds": self.target_kinds,
            }
        )


def _checked(args: ModelServerArgs) -> ModelPlan:
    rungs = [checked_input(rung, f"rungs[{at}]") for at, rung in enumerate(args["rungs"])]
    if not rungs:
        raise pulumi.InputPropertyError("rungs", "must have at least one rung, got none")
    try:
        return model_plan(cast("dict[str, Any]", args), rungs)
    except ValueError as error:
        raise _as_input_error(error) from error


def _built(plan: ModelPlan) -> dict[str, Any]:
    try:
        return deployments(plan)
    except ValueError as error:
        raise _as_input_error(error) from error


def _as_input_error(error: ValueError) -> pulumi.InputPropertyError:
    """Returns the error with its field in camelCase, as callers in other languages know it."""
    field, _, reason = str(error).partition(": ")
    head, *rest = field.split("_")
    return pulumi.InputPropertyError(head + "".join(part.title() for part in rest), reason)
