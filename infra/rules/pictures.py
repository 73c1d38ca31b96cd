"""Rules about image models: sizes, and settings that only they have."""

from collections.abc import Iterator

from gke_inference.catalogue.input_error import InputError
from gke_inference.sizing.architectures import find_model, known
from infra.stack import Engine, Platform, Task
from infra.stack.problems import join


def check_pictures(platform: Platform) -> Iterator[InputError]:
    """Yield the problems of a platform's image models."""
    for name, model in platform.models.items():
        if model.task is not Task.IMAGE:
            if model.pictures is not None:
                where = join("models", name, "pictures")
                yield InputError(where, f"must not be set when task is {model.task.value}")
            continue
        if model.engine is not Engine.DIFFUSION:
            message = "must be diffusion when task is image"
            yield InputError(join("models", name, "engine"), message, model.engine.value)
        yield from _check_family(("models", name), model.weights, name)
        for other, further in model.further_models.items():
            where = ("models", name, "pictures", "models", other)
            yield from _check_family(where, further.weights, other)
        if model.canary is not None:
            where = join("models", name, "canary")
            yield InputError(where, "must not be set when task is image")


def _check_family(where: tuple[str, ...], weights: str, name: str) -> Iterator[InputError]:
    """Yield that a model is known, and not one that the image server can run."""
    found = find_model(weights, name)
    if found is not None and not found.pipeline:
        able = " or ".join(each.name for each in known() if each.pipeline)
        rule = f"must be of a model that engine diffusion can run ({able})"
        yield InputError(join(*where, "weights"), rule, weights)
