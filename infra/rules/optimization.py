"""Rules about jobs that optimize models: models, a queue with GPUs, and canaries behind a gate."""

from collections.abc import Iterator

from gke_inference.catalogue.input_error import Bare, InputError
from gke_inference.catalogue.problems import join, one_of
from gke_inference.catalogue.quotas import boots_only_from_hyperdisk
from gke_inference.intent.adapter_settings import DEFAULT_RANK
from gke_inference.optimization.rules import check_evaluation, check_quantization
from infra.plan import CapacityByRegion
from infra.plan.capacity import queue_region
from infra.plan.names import bucket_in
from infra.plan.optimization import gib_of, job_hardware, trained_models
from infra.rules.clients import check_key_secret
from infra.stack import Evaluation, Layer, Model, Optimization, Platform, Task, Tuning
from workloads.engine.weights_manifest import split

_AT = "optimization"
_FIT = 0.8
"""Share of the chips' memory for the weights of a model whose adapter is trained (assumed)."""


def check_optimization(platform: Platform, by_region: CapacityByRegion) -> Iterator[InputError]:
    """Yield the problems of a platform's jobs, and of canaries that name an evaluation.

    Args:
        platform: The stack.
        by_region: Resolved capacity, by region.
    """
    settings = platform.optimization
    yield from _check_gates(platform, settings)
    if settings is None:
        return
    if platform.layer is not Layer.ALL:
        rule = "must not be set when layer is platform or serving"
        yield InputError(_AT, rule, settings.queue)
        return
    problems = list(_check_place(platform, settings))
    yield from problems
    yield from _check_quantizations(platform, settings)
    for name, tuning in settings.tunings.items():
        where = join(_AT, "tunings", name)
        yield from _check_model(platform, settings, where, tuning.model)
        yield from _check_rank(platform, where, tuning)
    for name, evaluation in settings.evaluations.items():
        yield from _check_evaluation(platform, settings, name, evaluation)
    if not problems:
        yield from _check_hardware(platform, settings, by_region)
    if settings.evaluations:
        yield from check_key_secret(platform, _AT, settings.key_secret)


def _check_gates(platform: Platform, settings: Optimization | None) -> Iterator[InputError]:
    """A gate's evaluation must be the one of the canary, and have a result for it."""
    evaluations = {} if settings is None else settings.evaluations
    for name, model in platform.models.items():
        gate = None if model.canary is None else model.canary.evaluation
        if gate is None:
            continue
        where, found = join("models", name, "canary", "evaluation"), evaluations.get(gate)
        if found is None:
            yield one_of(where, gate, sorted(evaluations))
        elif found.model != name or found.adapter is not None or found.against is not None:
            rule = f"must be an evaluation of {name} without adapter and against: of its canary"
            yield InputError(where, rule, gate)


def _check_place(platform: Platform, settings: Optimization) -> Iterator[InputError]:
    queue = platform.queues.get(settings.queue)
    if queue is None:
        yield one_of(join(_AT, "queue"), settings.queue, sorted(platform.queues))
        return
    if settings.team not in queue.teams:
        yield one_of(join(_AT, "team"), settings.team, sorted(queue.teams))
    if "tpu" in platform.kinds_of(queue) and any(trained_models(settings)):
        rule = "must be a queue of GPUs, which LLM Compressor and PEFT are for"
        yield InputError(join(_AT, "queue"), rule, settings.queue)


def _check_model(
    platform: Platform, settings: Optimization, where: str, name: str
) -> Iterator[InputError]:
    """A job reads the weights in the region of its queue, in the platform's own bucket."""
    path, model = join(where, "model"), platform.models.get(name)
    if model is None:
        yield one_of(path, name, sorted(platform.models))
        return
    if model.task is not Task.GENERATE:
        rule = "must be a model of task generate"
        yield InputError(path, rule, Bare(f"{name}, {model.task.value}"))
    if bucket_in(model.weights) is not None:
        rule = "must have weights in the model bucket of the platform"
        yield InputError(path, rule, model.weights)
    queue = platform.queues.get(settings.queue)
    region = None if queue is None else queue_region(platform, queue)
    if region is not None and region not in platform.regions_of(model):
        yield InputError(path, f"must be a model that runs in {region}, as the queue", name)


def _check_quantizations(platform: Platform, settings: Optimization) -> Iterator[InputError]:
    used: dict[str, str] = {split(model.weights)[0]: "models" for model in platform.models.values()}
    for name, quantization in settings.quantizations.items():
        where = join(_AT, "quantizations", name)
        yield from check_quantization(where, quantization)
        yield from _check_model(platform, settings, where, quantization.model)
        folder, version = split(quantization.weights)
        if version is not None or bucket_in(folder) is not None:
            rule = "must be a folder of the model bucket, without a version"
            yield InputError(join(where, "weights"), rule, quantization.weights)
        elif folder.rstrip("/") in used:
            rule = f"must be a folder of its own: {used[folder.rstrip('/')]} has it"
            yield InputError(join(where, "weights"), rule, quantization.weights)
        used.setdefault(folder.rstrip("/"), where)


def _check_rank(platform: Platform, where: str, tuning: Tuning) -> Iterator[InputError]:
    """An engine does not start with an adapter of a higher rank than it has room for."""
    model = platform.models.get(tuning.model)
    if model is None or tuning.adapter not in model.adapters:
        return
    most = DEFAULT_RANK if model.adapter_rank is None else model.adapter_rank
    if tuning.rank > most:
        rule = f"must be at most models.{tuning.model}.adapter_rank ({most})"
        yield InputError(join(where, "rank"), rule, tuning.rank)


def _check_evaluation(
    platform: Platform, settings: Optimization, name: str, evaluation: Evaluation
) -> Iterator[InputError]:
    where = join(_AT, "evaluations", name)
    yield from check_evaluation(where, evaluation)
    yield from _check_model(platform, settings, where, evaluation.model)
    if evaluation.adapter is not None and evaluation.against is not None:
        rule = "must not be set with adapter, which is compared with its model"
        yield InputError(join(where, "against"), rule, evaluation.against)
        return
    model = platform.models.get(evaluation.model)
    if evaluation.against is not None:
        path = join(where, "against")
        if evaluation.against == evaluation.model:
            yield InputError(path, "must be another model", evaluation.against)
            return
        for problem in _check_model(platform, settings, where, evaluation.against):
            yield problem.at(path)
    elif model is None:
        return
    elif evaluation.adapter is not None:
        if evaluation.adapter not in model.adapters:
            yield one_of(join(where, "adapter"), evaluation.adapter, sorted(model.adapters))
    else:
        yield from _check_canary(where, evaluation.model, model)


def _check_canary(where: str, name: str, model: Model) -> Iterator[InputError]:
    if model.canary is None:
        rule = "must be a model with a canary, unless adapter or against is set"
        yield InputError(join(where, "model"), rule, name)
    elif bucket_in(model.canary.weights) is not None:
        rule = "must have a canary with weights in the model bucket of the platform"
        yield InputError(join(where, "model"), rule, model.canary.weights)


def _check_hardware(
    platform: Platform, settings: Optimization, by_region: CapacityByRegion
) -> Iterator[InputError]:
    """A job has the node of the queue's first flavor, and a volume for the model beside it."""
    queue = platform.queues[settings.queue]
    region, first = queue_region(platform, queue), queue.flavors[0].capacity
    if region not in platform.regions or first not in platform.capacity:
        return  # check_queues reports it
    capacity = by_region[first][region]
    if capacity.problems or not capacity.rungs:
        return  # check_capacity reports it
    for kind, name, key in trained_models(settings):
        model = platform.models.get(key)
        if model is None:
            continue
        where, gib = join(_AT, kind, name, "model"), gib_of(model)
        found = job_hardware(model, capacity)
        if boots_only_from_hyperdisk(found.rung.machine_type):
            rule = "must have a first flavor whose machines take Persistent Disks, for the model"
            yield InputError(join(_AT, "queue"), rule, found.rung.machine_type)
            return
        memory = found.rung.chip.memory_gib * found.rung.chips_per_node * _FIT
        if gib > found.memory_gib * _FIT:
            rule = f"must fit {found.memory_gib} GiB of main memory of {found.rung.label}"
            yield InputError(where, rule, Bare(f"{key}, {gib:.0f} GiB"))
        elif kind == "tunings" and gib > memory:
            rule = f"must fit {memory:.0f} GiB of the chips of {found.rung.label}"
            yield InputError(where, rule, Bare(f"{key}, {gib:.0f} GiB"))
