"""The translator of engines: what a stack's model means to serve, in the words of `ModelServer`."""

from collections.abc import Callable
from typing import Any

from infra.plan.canary import served_name
from infra.plan.names import Names, object_name
from infra.stack import EngineSettings, Model, Pictures, Platform, Task


def intent_words(name: str, model: Model, *, weights: Callable[[str], str]) -> dict[str, Any]:
    """Return what a model means to serve: the same in each region, except where files are.

    Args:
        name: Of the model in the stack.
        model: The model.
        weights: Returns where a path of weights is read from.
    """
    uri = weights(model.weights)
    words = {
        "adapters": {adapter: f"{uri}/adapters/{adapter}" for adapter in model.adapters},
        "context_tokens": model.context,
        "engine": model.engine.value,
        "longest_request_seconds": model.timeout_seconds,
        "model": object_name(name),
        "parameters_billion": model.size.parameters_billion,
        "served_name": served_name(name, model),
        "task": model.task.value,
        "weight_bits": model.size.bits,
        "weights": uri,
        **_settings(model.settings, weights),
        **_pictures(model),
    }
    if model.live_adapters is not None:
        words["live_adapters"] = {
            "max_rank": model.live_adapters.max_rank,
            "slots": model.live_adapters.slots,
            "source": f"{uri}/{model.live_adapters.folder}",
        }
    if model.spanning is not None:
        words["spanning"] = model.spanning.value
    if model.disaggregated is not None:
        words["role"] = "decode"
    return words


def _settings(settings: EngineSettings, weights: Callable[[str], str]) -> dict[str, Any]:
    """Return the settings that are set: they have one name in a stack and in `ModelServer`."""
    words = settings.model_dump(mode="json", exclude_defaults=True)
    guess: dict[str, Any] = words.get("speculative") or {}
    if guess.get("weights") is not None:
        guess["weights"] = weights(guess["weights"])
    return words


def _pictures(model: Model) -> dict[str, Any]:
    """Return what a model that makes images offers its clients; nothing of another model."""
    if model.task is not Task.IMAGE:
        return {}
    pictures = Pictures() if model.pictures is None else model.pictures
    words: dict[str, Any] = {"image_queue": pictures.queue, "image_sizes": list(pictures.sizes)}
    if pictures.steps is not None:
        words["image_steps"] = pictures.steps
    return words


def weights_uri(platform: Platform, path: str, region: str) -> str:
    """Return `gs://BUCKET/PATH` of weights as a region reads them."""
    path = path.rstrip("/")
    if path.startswith("gs://"):
        return path
    return f"gs://{Names(platform).bucket('models', region)}/{path}"
