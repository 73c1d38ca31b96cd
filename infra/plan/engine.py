"""The intent of a model: a stack's settings as `ModelServer` takes them."""

from collections.abc import Callable
from typing import Any

from infra.plan.names import claim_name, object_name
from infra.plan.storage import CLAIM, is_on_folder, path_of, shared_tier
from infra.stack import EngineSettings, FurtherModel, ImageGeneration, Model, Task, Videos
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
        "adapters": {adapter: adapter_folder(folder, adapter) for adapter in model.adapters},
        "context_tokens": model.context,
        "engine": model.engine,
        "longest_request_seconds": model.timeout_seconds,
        "model": object_name(name),
        "parameters_billion": model.size.parameters_billion,
        "served_name": served_name or name,
        "task": model.task.value,
        "weight_bits": model.size.bits,
        "weights": uri,
        **_settings(model.settings, weights),
        **_images(model, weights),
        **_videos(model),
    }
    if model.adapter_rank is not None:
        words["adapter_rank"] = model.adapter_rank
    if model.live_adapters is not None:
        words["live_adapters"] = {
            "max_rank": model.live_adapters.max_rank,
            "slots": model.live_adapters.slots,
            "source": f"{folder}/{model.live_adapters.folder}",
        }
        if is_on_folder(model):
            words["live_adapters"] |= {"claim": CLAIM, "source": path_of(name, model)}
    if model.disk is not None:
        words["weights_claim"] = claim_name(name)
    if model.experts is not None:
        words["experts"] = model.experts.model_dump(mode="json", exclude_none=True)
    if model.spanning is not None:
        words["spanning"] = model.spanning.value
    if model.disaggregated is not None:
        words["role"] = "decode"
    return words


def _settings(settings: EngineSettings, weights: Callable[[str], str]) -> dict[str, Any]:
    """Return the settings that are set, whose names are the same in `ModelServer`."""
    words = settings.model_dump(mode="json", exclude_defaults=True)
    offload: dict[str, Any] = words.get("kv_offload") or {}
    tier = shared_tier(settings)
    if tier is not None:
        del offload["shared"]
        offload |= {"shared_claim": CLAIM, "shared_gib": tier.gib}
    guess: dict[str, Any] = words.get("speculative") or {}
    if guess.get("weights") is not None:
        guess["weights"] = weights(guess["weights"])
    return words


def _images(model: Model, weights: Callable[[str], str]) -> dict[str, Any]:
    """Return the image settings of an image model, or nothing for other models."""
    if model.task is not Task.IMAGE:
        return {}
    images = ImageGeneration() if model.images is None else model.images
    words: dict[str, Any] = {"image_queue": images.queue, "image_sizes": list(images.sizes)}
    if images.steps is not None:
        words["image_steps"] = images.steps
    if images.sigmas is not None:
        words["image_sigmas"] = list(images.sigmas)
    if images.step_cache is not None:
        words["image_step_cache"] = images.step_cache
    if images.models:
        words["image_models"] = {
            name: _further(each, weights) for name, each in images.models.items()
        }
    return words


def _videos(model: Model) -> dict[str, Any]:
    """Return the settings of a video model, or nothing for other models."""
    if model.task is not Task.VIDEO:
        return {}
    videos = Videos() if model.videos is None else model.videos
    words: dict[str, Any] = {
        "image_queue": videos.queue,
        "image_sizes": list(videos.sizes),
        "video_frames": list(videos.frames),
    }
    return words if videos.steps is None else {**words, "image_steps": videos.steps}


def _further(model: FurtherModel, weights: Callable[[str], str]) -> dict[str, Any]:
    """Return a further image model as `ModelServer` takes it."""
    words: dict[str, Any] = {
        "context_tokens": model.context,
        "parameters_billion": model.size.parameters_billion,
        "sigmas": None if model.sigmas is None else list(model.sigmas),
        "steps": model.steps,
        "weight_bits": model.size.bits,
        "weights": weights(model.weights),
    }
    return {key: value for key, value in words.items() if value is not None}
