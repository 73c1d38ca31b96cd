"""The intent of a model: a stack's settings as `ModelServer` takes them."""

from collections.abc import Callable, Mapping
from typing import Any

from gke_inference.catalogue.rungs import Rung
from gke_inference.intent.adapter_settings import AdapterFolder
from gke_inference.intent.diffusion_settings import ImageGeneration
from gke_inference.intent.intent import ServingIntent, intent_of
from gke_inference.intent.words import Role
from infra.plan.names import claim_name, object_name
from infra.plan.storage import CLAIM, is_on_folder, path_of, shared_tier
from infra.stack import EngineSettings, Model
from workloads.engine.weights_manifest import adapter_folder, split


def intent_words(
    name: str, model: Model, *, weights: Callable[[str], str], served_name: str | None = None
) -> dict[str, Any]:
    """Return the intent of a model, identical in all regions except for file locations.

    Args:
        name: Name of the model in the stack.
        model: The model.
        weights: Returns where a path of weights is read from.
        served_name: The name that clients ask for. Default: the model's.
    """
    uri = weights(model.weights)
    folder, _ = split(uri)
    words = {
        "adapter_rank": model.adapter_rank,
        "adapters": {adapter: adapter_folder(folder, adapter) for adapter in model.adapters},
        "context": model.context or None,
        "engine": model.engine,
        "experts": model.experts,
        "grpc": model.grpc or None,
        "images": None if model.images is None else _located_images(model.images, weights),
        "kv_claim": None if shared_tier(model.settings) is None else CLAIM,
        "live_adapters": _live_adapters(name, model, folder),
        "longest_request_seconds": model.timeout_seconds,
        "model": object_name(name),
        "role": None if model.disaggregated is None else Role.DECODE,
        "served_name": served_name or name,
        "settings": _located(model.settings, weights),
        "size": model.size,
        "spanning": model.spanning,
        "task": model.task,
        "videos": model.videos,
        "weights": uri,
        "weights_claim": None if model.disk is None else claim_name(name),
    }
    return {key: value for key, value in words.items() if value is not None}


def stack_intent(name: str, model: Model, rungs: Mapping[str, Rung]) -> ServingIntent:
    """Return the intent of a model on rungs, with the weights where the stack has them.

    Args:
        name: Name of the model in the stack.
        model: The model.
        rungs: Validated rungs by any key.
    """
    return intent_of(intent_words(name, model, weights=str), rungs)


def _located(settings: EngineSettings, weights: Callable[[str], str]) -> EngineSettings:
    """Return engine settings with the place of a draft model's weights."""
    guess = settings.speculative
    if guess is None or guess.weights is None:
        return settings
    placed = guess.model_copy(update={"weights": weights(guess.weights)})
    return settings.model_copy(update={"speculative": placed})


def _located_images(images: ImageGeneration, weights: Callable[[str], str]) -> ImageGeneration:
    """Return the settings of an image model with the places of its further models."""
    models = {
        name: each.model_copy(update={"weights": weights(each.weights)})
        for name, each in images.models.items()
    }
    return images.model_copy(update={"models": models})


def _live_adapters(name: str, model: Model, folder: str) -> AdapterFolder | None:
    live = model.live_adapters
    if live is None:
        return None
    is_mounted = is_on_folder(model)
    return AdapterFolder(
        claim=CLAIM if is_mounted else None,
        max_rank=live.max_rank,
        slots=live.slots,
        source=path_of(name, model) if is_mounted else f"{folder}/{live.folder}",
    )
