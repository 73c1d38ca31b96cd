"""Rules about batches: models that answer, one region for the files, and a key."""

from collections.abc import Iterator
from typing import Final

from gke_inference.catalogue.input_error import Bare, InputError
from gke_inference.catalogue.problems import join, one_of
from infra.plan.batches import ENDPOINTS, answering, region_of
from infra.stack import Batches, Clients, Layer, Platform

_TASKS: Final = "generate, embed or image"


def check_batches(platform: Platform) -> Iterator[InputError]:
    """Yield the problems of a platform's batches."""
    batches = platform.batches
    if batches is None:
        return
    if platform.layer is not Layer.ALL:
        rule = "must not be set when layer is platform or serving"
        yield InputError("batches", rule, batches.completion_window.value)
        return
    problems = list(_check_region(platform, batches))
    yield from problems
    if not problems:
        yield from _check_models(platform, batches)
    clients = platform.gated_clients()
    if clients is not None:
        yield from _check_teams(clients, batches)
    if clients is not None and not platform.network_policies:
        rule = "must be true when clients have batches: otherwise, any pod can pose as any team"
        yield InputError("network_policies", rule, "false")


def _check_teams(clients: Clients, batches: Batches) -> Iterator[InputError]:
    """Yield what lets a request of a batch act for another team than that of its file."""
    if batches.key_secret is None:
        rule = "is required when clients have teams: without a key, requests act for no team"
        yield InputError("batches.key_secret", rule)
    if not clients.acting_teams:
        rule = (
            "must have a team with acts_for_teams: true, whose key batches.key_secret has: "
            "the requests of a batch act for the team of its file"
        )
        yield InputError("clients.teams", rule, Bare("none"))


def _check_region(platform: Platform, batches: Batches) -> Iterator[InputError]:
    if platform.gateway.front is not None:
        rule = "must not be set when gateway.front is set: files are in one region only"
        yield InputError("batches", rule, platform.gateway.front.value)
    elif batches.region is None and len(platform.regions) > 1:
        rule = "is required with several regions: the files are in one of them"
        yield InputError("batches.region", rule)
    elif batches.region is not None and batches.region not in platform.regions:
        yield one_of("batches.region", batches.region, list(platform.regions))


def _check_models(platform: Platform, batches: Batches) -> Iterator[InputError]:
    region = region_of(batches, platform.regions)
    for at, name in enumerate(batches.models or ()):
        where = join("batches.models", at)
        model = platform.models.get(name)
        if model is None:
            yield one_of(where, name, sorted(platform.models))
        elif model.task not in ENDPOINTS:
            yield InputError(where, f"must be a model of task {_TASKS}", name)
        elif region not in platform.regions_of(model):
            yield InputError(where, f"must be a model that runs in {region}", name)
    if not answering(batches, platform.models_in(region)) and batches.models is None:
        rule = f"needs a model of task {_TASKS} in {region}"
        yield InputError("batches", rule, "none")
