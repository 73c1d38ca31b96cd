"""Rules about model servers: those of `ModelServer`, with the field paths of a stack."""

import re
from collections.abc import Iterator, Mapping

from gke_inference.catalogue.engines import engine
from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.problems import join
from gke_inference.catalogue.rungs import Rung
from gke_inference.intent.intent import ServingIntent, intent_of
from gke_inference.intent.rules import problems
from infra.plan import CapacityByRegion, canary_model, prefill_capacity
from infra.plan.engine import intent_words
from infra.plan.names import bucket_in
from infra.plan.storage import BUCKET_CLAIM
from infra.stack import Model, Platform, Role

PATHS = {
    "buffer_replicas": "replicas.buffer",
    "role": "disaggregated",
    "rungs": "capacity",
}
"""Stack fields whose names differ from the inputs of a model server."""


def check_engines(platform: Platform, by_region: CapacityByRegion) -> Iterator[InputError]:
    """Yield settings that a model's engine or hardware does not support.

    Args:
        platform: The stack.
        by_region: Resolved capacity, by region.
    """
    for name, model in platform.models.items():
        seen: set[InputError] = set()
        for intent, paths in _intents(platform, by_region, name, model):
            for problem in problems(intent):
                if problem not in seen:
                    seen.add(problem)
                    yield in_stack(problem, ("models", name), paths)
        yield from _canary(platform, by_region, name, model, seen)


def _canary(
    platform: Platform, by_region: CapacityByRegion, name: str, model: Model, seen: set[InputError]
) -> Iterator[InputError]:
    """Yield settings that the canary's engine or hardware does not support but the model's does."""
    canary = model.canary
    if canary is None or model.disaggregated is not None:
        return  # check_disaggregation refuses both together
    where = ("models", name, "canary")
    if model.adapters and canary.engine is not None:
        names = {engine(each).adapter_name for each in (model.engine, canary.engine)}
        if len(names) > 1:
            rule = "must be an engine that names adapters as the model's does"
            yield InputError(join(*where, "engine"), rule, canary.engine)
            return
    refused = {problem.path for problem in seen}
    for intent, paths in _intents(platform, by_region, name, canary_model(model, canary)):
        for problem in problems(intent):
            if problem.path not in refused:
                yield in_stack(problem, where, paths)


def _intents(
    platform: Platform, by_region: CapacityByRegion, name: str, model: Model
) -> Iterator[tuple[ServingIntent, Mapping[str, str]]]:
    """Yield the intent of a model and of its prefill replicas."""
    prefill = prefill_capacity(model)
    if prefill is not None and prefill not in platform.capacity:
        return  # check_disaggregation reports it
    words = intent_words(name, model, weights=str)
    if platform.storage.fuse_profile is not None and bucket_in(model.weights) is None:
        words["weights_bucket_claim"] = BUCKET_CLAIM
    if model.form is not None:
        words["form"] = model.form
    rungs = _rungs(platform, by_region, model, model.capacity)
    if rungs:
        own = {**words, "buffer_replicas": model.replicas.buffer}
        yield intent_of(own, rungs), PATHS
    if prefill is not None and prefill != model.capacity:
        rungs = _rungs(platform, by_region, model, prefill)
        if rungs:
            yield (
                intent_of({**words, "role": Role.PREFILL}, rungs),
                {**PATHS, "rungs": "disaggregated"},
            )


def _rungs(
    platform: Platform, by_region: CapacityByRegion, model: Model, capacity: str
) -> dict[str, Rung]:
    """Return all rungs of a capacity in a model's regions, or none if one of them is invalid."""
    by_place: dict[int, Rung] = {}
    for region in platform.regions_of(model) if capacity in platform.capacity else ():
        resolved = by_region[capacity][region]
        if resolved.problems:
            return {}  # check_capacity reports them
        by_place.update(resolved.rungs)
    return {join("capacity", capacity, "rungs", at): by_place[at] for at in sorted(by_place)}


def in_stack(
    problem: InputError, where: tuple[str, ...], paths: Mapping[str, str] = PATHS
) -> InputError:
    """Return a problem of a model server with the field name of a stack.

    Args:
        problem: The problem.
        where: Path of the model, or of its canary.
        paths: Fields whose names differ, by their name in the model server.
    """
    head = re.match(r"\w+", problem.path)
    word = head[0] if head else problem.path
    return problem.at(join(*where, paths.get(word, word)) + problem.path[len(word) :])
