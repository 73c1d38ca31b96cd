"""Resolved jobs that optimize models: what each reads, writes and runs on."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil

from gke_inference.catalogue.rungs import Rung
from gke_inference.intent.host_memory import request_gib
from infra.plan.capacity import RegionCapacity, queue_region
from infra.plan.queues import team_namespace
from infra.stack import Evaluation, Model, Optimization, Platform
from workloads.engine.weights_manifest import adapter_folder, split

STABLE = "stable"
"""Version of a model that its canary is compared with, in the header x-model-version."""
_CPU_SHARE = 0.75
"""Share of a node's CPUs that a job requests, as an engine does."""
_SCRATCH_SHARE = 2.2
"""Scratch volume for each byte of a model: the model and the result, which is smaller (assumed)."""
_SCRATCH_GIB = 20


@dataclass(frozen=True)
class EvaluatedSide:
    """A model as an evaluation asks for it."""

    model: str
    """Name in requests."""
    version: str | None
    """Value of x-model-version; None for no header."""
    weights: str
    """Folder in the bucket, with @VERSION if the stack names one."""


@dataclass(frozen=True)
class JobHardware:
    """What a job takes of a node."""

    rung: Rung
    """First rung of the first flavor."""
    cpus: int
    memory_gib: int
    scratch_gib: int


@dataclass(frozen=True)
class OptimizationPlan:
    """The jobs of one region."""

    settings: Optimization
    region: str | None
    """Region of the queue."""
    namespace: str
    """Namespace of the team."""
    models: Mapping[str, Model]
    """Models of the stack."""

    def sides(self, evaluation: Evaluation) -> tuple[EvaluatedSide, EvaluatedSide]:
        """Return the candidate and the baseline of an evaluation."""
        return sides_of(self.models, evaluation)


def sides_of(
    models: Mapping[str, Model], evaluation: Evaluation
) -> tuple[EvaluatedSide, EvaluatedSide]:
    """Return the candidate and the baseline of a valid evaluation.

    Requests for a model with a canary name the version, as they would reach both otherwise.
    """
    model = models[evaluation.model]
    version = None if model.canary is None else STABLE
    stable = EvaluatedSide(evaluation.model, version, model.weights)
    if evaluation.adapter is not None:
        weights = adapter_folder(split(model.weights)[0], evaluation.adapter)
        return EvaluatedSide(evaluation.adapter, version, weights), stable
    if evaluation.against is not None:
        other = models[evaluation.against]
        version = None if other.canary is None else STABLE
        return stable, EvaluatedSide(evaluation.against, version, other.weights)
    if model.canary is None:
        raise ValueError(f"{evaluation.model} must have a canary")
    canary = EvaluatedSide(evaluation.model, model.canary.version, model.canary.weights)
    return canary, stable


def gib_of(model: Model) -> float:
    """Return the size of a model's weights in GiB."""
    return model.size.parameters_billion * 1e9 * model.size.bits / 8 / 2**30


def job_hardware(model: Model, capacity: RegionCapacity) -> JobHardware:
    """Return what a job for a model takes of a node of a capacity."""
    rung = next(iter(capacity.rungs.values()))
    entry = rung.machine
    return JobHardware(
        rung=rung,
        cpus=max(1, int((entry.vcpus or 4) * _CPU_SHARE)),
        memory_gib=request_gib(entry.ram_gib or 16, 0),
        scratch_gib=_SCRATCH_GIB + ceil(gib_of(model) * _SCRATCH_SHARE),
    )


def resolve_optimization(platform: Platform) -> OptimizationPlan | None:
    """Return the jobs of a stack, if it has any."""
    settings = platform.optimization
    if settings is None:
        return None
    return OptimizationPlan(
        settings=settings,
        region=queue_region(platform, platform.queues[settings.queue]),
        namespace=team_namespace(settings.team),
        models=platform.models,
    )


def trained_models(settings: Optimization) -> Iterator[tuple[str, str, str]]:
    """Yield list of settings, name and model of each job that needs GPUs, in stack order."""
    for name, quantization in settings.quantizations.items():
        yield "quantizations", name, quantization.model
    for name, tuning in settings.tunings.items():
        yield "tunings", name, tuning.model
