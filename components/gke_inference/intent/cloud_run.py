"""A model on Cloud Run: its settings, which stacks and `CloudRunModel` share, and their rules.

The image of the engine runs as it is, without the launcher of a pod: what needs files or processes
beside the engine is refused. Facts about Cloud Run are in `gke_inference.catalogue.cloud_run`.
"""

from collections.abc import Iterator
from typing import Annotated, Final

from pydantic import Field

from gke_inference.catalogue.cloud_run import RunGpu, gpu_names, run_gpu, run_limits
from gke_inference.catalogue.engines import DEFAULT_ENGINE, engine
from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.problems import one_of
from gke_inference.catalogue.rungs import Rung, check_rung
from gke_inference.settings import OneOf, Settings, Word
from gke_inference.settings.fields import Weights
from gke_inference.settings.size import Size

from .batch_rules import batch_problems
from .context_rules import context_problems
from .engine_rules import engine_problems
from .fitting import unfit
from .intent import ServingIntent
from .settings import EngineSettings, ServedContext
from .words import Task

Concurrency = Annotated[int, Field(ge=1, le=run_limits().concurrency)]
"""Maximum number of requests that one instance answers at a time."""
CONCURRENCY: Final = 32
IdleInstances = Annotated[int, Field(ge=0, le=100)]
"""Number of instances that run without requests."""
MostInstances = Annotated[int, Field(ge=1, le=100)]
"""Maximum number of instances."""
RunAccelerator = Annotated[str, OneOf(gpu_names())]
"""GPU of Cloud Run, such as `nvidia-l4`."""
StartupSeconds = Annotated[int, Field(ge=10, le=2 * run_limits().probe_seconds)]
"""Maximum time from the start of the container to its first answer."""
STARTUP_SECONDS: Final = run_limits().probe_seconds
RUN_IMAGE: Final = engine(DEFAULT_ENGINE).hardware["gpu"].image
"""Entry of the lock with the image of all models on Cloud Run."""

_TASKS: Final = (Task.GENERATE, Task.EMBED)
_FILES: Final = "needs files in addition to the engine"


class Ingress(Word):
    """Networks from which a service accepts requests."""

    INTERNAL = "internal"
    INTERNAL_AND_LOAD_BALANCER = "internal-and-load-balancer"


class CloudRunSettings(Settings):
    """A model that runs on Cloud Run: one vLLM server and one GPU in each instance."""

    weights: Weights
    """Path in the platform's model bucket, or gs://BUCKET/PATH in an existing bucket, with
    @VERSION: a new version is a new revision of the service."""
    accelerator: RunAccelerator
    """GPU of each instance."""
    size: Size
    """Size of the weights, which the GPU must hold."""
    context: ServedContext
    """Maximum length of prompt and answer together, in tokens."""
    concurrency: Concurrency = CONCURRENCY
    """Maximum number of requests that one instance answers at a time. Cloud Run adds an instance
    at about 60% of it, and does not look at the use of the GPU."""
    ingress: Ingress = Ingress.INTERNAL
    """Networks from which the service accepts requests: VPC networks of its project (`internal`),
    or also load balancers."""
    max_instances: MostInstances = 1
    """Maximum number of instances. Google refuses more than the GPU quota of the region."""
    memory_gib: int | None = Field(default=None, ge=1)
    """Memory of an instance. By default the size that Google recommends for the GPU."""
    min_instances: IdleInstances = 0
    """Instances that always run, at full price. With 0, the first request after a pause waits for
    a start."""
    settings: EngineSettings = EngineSettings()
    """Settings of vLLM. Those that need other files or processes than the engine are rejected."""
    startup_seconds: StartupSeconds = STARTUP_SECONDS
    """Maximum time from the start of the container to its first answer; Cloud Run ends one that
    takes longer. Beyond 240, the first probe is delayed by the rest, also of a faster start."""
    task: Task = Task.GENERATE
    """Kind of output: tokens or embeddings."""
    vcpus: int | None = Field(default=None, ge=1)
    """vCPUs of an instance. By default the number that Google recommends for the GPU."""
    zonal_redundancy: bool = False
    """Whether Google reserves capacity in a second zone, at a higher price and from another quota.
    Without it, instances in another zone are best effort."""

    @property
    def gpu(self) -> RunGpu:
        """GPU of each instance."""
        return run_gpu(self.accelerator)

    @property
    def instance_vcpus(self) -> int:
        """VCPUs of an instance."""
        return self.gpu.vcpus[0] if self.vcpus is None else self.vcpus

    @property
    def instance_gib(self) -> int:
        """Memory of an instance, in GiB."""
        return self.gpu.usual_gib if self.memory_gib is None else self.memory_gib


def run_intent(
    name: str, model: CloudRunSettings, timeout_seconds: int, weights: str
) -> ServingIntent:
    """Return a model on Cloud Run as a served model on a node with the same GPU.

    Args:
        name: Name that clients use.
        model: Its settings.
        timeout_seconds: Maximum time of a request.
        weights: `gs://BUCKET/PATH@VERSION`.
    """
    return ServingIntent(
        context=model.context,
        longest_request_seconds=timeout_seconds,
        model=name,
        rungs={"accelerator": run_rung(model.accelerator)},
        served_name=name,
        settings=model.settings,
        size=model.size,
        task=model.task,
        weights=weights,
    )


def run_rung(accelerator: str) -> Rung:
    """Return one GPU of a machine, as which rules and flags of engines know it."""
    return check_rung({"accelerator": accelerator, "count": 1, "provisioning": "on-demand"})


def run_problems(
    name: str, model: CloudRunSettings, timeout_seconds: int, region: str | None = None
) -> Iterator[InputError]:
    """Yield every rule that a model on Cloud Run violates.

    Args:
        name: Name that clients use.
        model: Its settings.
        timeout_seconds: Maximum time of a request.
        region: Region of the service, if it is known.
    """
    yield from _sizes(model)
    yield from _instances(model)
    if region is not None and region not in model.gpu.regions:
        rule = f"must be a GPU that Cloud Run has in {region}: {model.accelerator} is in"
        yield InputError("accelerator", f"{rule} {', '.join(model.gpu.regions)}")
    if "@" not in model.weights:
        note = ": an instance does not read the pointer to the current version"
        yield InputError("weights", "must select a version, PATH@VERSION", model.weights, note)
    if model.task not in _TASKS:
        yield one_of("task", model.task.value, [task.value for task in _TASKS])
        return
    unsupported = list(_unsupported(model.settings))
    yield from unsupported
    if unsupported:
        return
    intent = run_intent(name, model, timeout_seconds, model.weights)
    engine = list(engine_problems(intent))
    yield from engine
    yield from context_problems(intent)
    if engine:
        return
    yield from batch_problems(intent)
    if (reason := unfit(intent, intent.rungs["accelerator"])) is not None:
        needs, _, _ = reason.partition("; ")  # what follows are larger nodes
        yield InputError("accelerator", f"must hold the model on one GPU: it {needs}")


def _sizes(model: CloudRunSettings) -> Iterator[InputError]:
    gpu = model.gpu
    if model.instance_vcpus not in gpu.vcpus:
        listed = ", ".join(str(count) for count in sorted(gpu.vcpus))
        rule = f"must be one of {listed} with {gpu.name}"
        yield InputError("vcpus", rule, model.instance_vcpus)
    if not gpu.least_gib <= model.instance_gib <= gpu.usual_gib:
        span = f"{gpu.least_gib} to {gpu.usual_gib}"
        span = str(gpu.least_gib) if gpu.least_gib == gpu.usual_gib else span
        yield InputError("memory_gib", f"must be {span} with {gpu.name}", model.instance_gib)


def _instances(model: CloudRunSettings) -> Iterator[InputError]:
    if model.min_instances > model.max_instances:
        rule = f"must be at most max_instances ({model.max_instances})"
        yield InputError("min_instances", rule, model.min_instances)


def _unsupported(settings: EngineSettings) -> Iterator[InputError]:
    """Yield engine settings for which Cloud Run has no place."""
    guess = settings.speculative
    found = {
        "chat_template": settings.chat_template is not None,
        "engine_secrets": bool(settings.engine_secrets),
        "kv_offload": settings.kv_offload is not None,
        "speculative.weights": guess is not None and guess.weights is not None,
        "tensor_parallel": settings.tensor_parallel not in (None, 1),
    }
    reasons = {
        "engine_secrets": "needs the launcher, which reads secrets",
        "kv_offload": "needs memory or disks in addition to the engine",
        "tensor_parallel": "needs more than the one GPU of an instance",
    }
    for field, is_set in found.items():
        if is_set:
            reason = reasons.get(field, _FILES)
            yield InputError(f"settings.{field}", f"must not be set on Cloud Run: it {reason}")
