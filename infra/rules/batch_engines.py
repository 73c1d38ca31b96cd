"""Rules about own engines of batches: a model that one job holds, and a queue with its hardware."""

from collections.abc import Iterator, Mapping

from gke_inference.catalogue.engines import engine, engines_where
from gke_inference.catalogue.input_error import Bare, InputError
from gke_inference.catalogue.problems import join, one_of
from gke_inference.catalogue.rungs import Rung
from gke_inference.intent.intent import intent_of
from gke_inference.intent.rules import problems
from infra.plan import CapacityByRegion, RegionCapacity
from infra.plan.batches import answering, region_of
from infra.plan.capacity import queue_region
from infra.plan.engine import intent_words
from infra.plan.names import object_name
from infra.rules.engines import in_stack
from infra.stack import BatchEngine, Batches, Layer, Model, Platform, Queue, Task

_LONGEST_MODEL = 50
"""Characters of a model's object name, of which names of its jobs' objects are made."""


def check_batch_engines(platform: Platform, by_region: CapacityByRegion) -> Iterator[InputError]:
    """Yield the problems of the own engines of a platform's batches.

    Args:
        platform: The stack.
        by_region: Resolved capacity, by region.
    """
    batches = platform.batches
    if batches is None or platform.layer is not Layer.ALL:
        return  # check_batches reports it
    region = region_of(batches, platform.regions)
    if region not in platform.regions:
        return  # the same
    known_models = answering(batches, platform.models_in(region))
    for name, own in batches.engines.items():
        where = join("batches.engines", name)
        model = known_models.get(name)
        if model is None:
            yield one_of(where, name, sorted(known_models))
            continue
        own_problems = list(_check_model(where, name, model))
        own_problems += _check_place(platform, batches, where, own)
        own_problems += _check_teams(platform, where, name, model)
        yield from own_problems
        queue = platform.queues.get(own.queue)
        known = platform.capacity.keys()
        if not own_problems and queue and all(each.capacity in known for each in queue.flavors):
            here = [by_region[each.capacity][region] for each in queue.flavors]
            yield from _check_hardware(where, name, model, own, here)
            yield from _check_share(where, own, queue, here)


def _check_model(where: str, name: str, model: Model) -> Iterator[InputError]:
    if not engine(model.engine).batches or model.task is not Task.GENERATE:
        got = f"{model.engine}, {model.task.value}"
        able = " or ".join(each.name for each in engines_where(lambda facts: facts.batches))
        yield InputError(where, f"must be a model of engine {able} and task generate", Bare(got))
    settings = model.settings
    unusable: Mapping[str, object | None] = {
        "disaggregated": model.disaggregated,
        "disk": model.disk,
        "live_adapters": model.live_adapters,
        "experts": model.experts,
        "settings.kv_offload": settings.kv_offload,
    }
    used = [field for field, value in unusable.items() if value is not None]
    if used:
        rule = f"must be a model without {', '.join(unusable)}: its jobs have one kind of pod"
        yield InputError(where, rule, Bare(", ".join(used)))
    if model.guardrails:
        rule = "must be a model without guardrails: requests to its own engine skip the gateway"
        yield InputError(where, rule, Bare(", ".join(model.guardrails)))
    if len(object_name(name)) > _LONGEST_MODEL:
        yield InputError(where, f"must be a name of at most {_LONGEST_MODEL} characters", name)


def _check_teams(platform: Platform, where: str, name: str, model: Model) -> Iterator[InputError]:
    clients = platform.gated_clients()
    names = {name, *model.adapter_names(name)}
    for team, settings in ({} if clients is None else clients.teams).items():
        if settings.guardrails and (settings.models is None or names & set(settings.models)):
            rule = (
                f"must be a model that team {team!r} may not use: requests to its own engine skip "
                "the guardrails of the team"
            )
            yield InputError(where, rule, Bare(", ".join(settings.guardrails)))


def _check_place(
    platform: Platform, batches: Batches, where: str, own: BatchEngine
) -> Iterator[InputError]:
    queue = platform.queues.get(own.queue)
    if queue is None:
        yield one_of(join(where, "queue"), own.queue, sorted(platform.queues))
        return
    region = region_of(batches, platform.regions)
    if queue_region(platform, queue) != region:
        rule = f"must be a queue in {region}, the region of the batches"
        yield InputError(join(where, "queue"), rule, own.queue)
    if own.team not in queue.teams:
        yield one_of(join(where, "team"), own.team, sorted(queue.teams))


def _check_hardware(
    where: str, name: str, model: Model, own: BatchEngine, here: list[RegionCapacity]
) -> Iterator[InputError]:
    rungs = {
        join("capacity", capacity.name, "rungs", at): rung
        for capacity in here
        for at, rung in capacity.rungs.items()
    }
    if any(capacity.problems for capacity in here) or not rungs:
        return  # check_capacity reports it
    if any(each.kind != "tpu" and each.is_multi_host for each in rungs.values()):
        return  # check_queues reports it
    shapes = sorted({_shape(each) for each in rungs.values()})
    if len(shapes) > 1:
        rule = "must be a queue whose flavors have the same chips per node: its jobs are all alike"
        yield InputError(join(where, "queue"), rule, Bare(", ".join(shapes)))
        return
    words = intent_words(name, model, weights=str)
    flags = {**(model.settings.engine_args or {}), **own.engine_args}
    words["settings"] = words["settings"].model_copy(update={"engine_args": flags})
    for found in problems(intent_of(words, rungs)):
        if found.path == "context":
            continue  # check_engines reports it
        problem = in_stack(found, ("models", name))
        yield InputError(join(where, "queue"), f"must fit {name}: {problem.message}", own.queue)


def _check_share(
    where: str, own: BatchEngine, queue: Queue, here: list[RegionCapacity]
) -> Iterator[InputError]:
    """A job has a whole node or slice; Kueue never admits one that its team may not have."""
    nodes = [rung.chips for capacity in here for rung in capacity.rungs.values()]
    share = queue.teams[own.team]
    most = max(
        flavor.chips
        if share.borrow is None
        else min(flavor.chips, share.chips.get(flavor.capacity, 0) + share.borrow)
        for flavor in queue.flavors
    )
    if nodes and most < min(nodes):
        unit = "slice" if any(each.spans_hosts for each in here) else "node"
        rule = f"must be a team that can have {min(nodes)} chips of one flavor, those of a {unit}"
        yield InputError(join(where, "team"), rule, Bare(f"{own.team}, {most}"))


def _shape(rung: Rung) -> str:
    size = f" {rung.topology}" if rung.is_multi_host else ""
    return f"{rung.accelerator}{size} x{rung.chips_per_node}"
