"""Rules about models that draw: sizes, and words that only they have."""

from collections.abc import Iterator

from gke_inference.catalogue.input_error import InputError
from infra.stack import Engine, Platform, Task
from infra.stack.problems import join


def check_pictures(platform: Platform) -> Iterator[InputError]:
    """Yield what is wrong with the models of a platform that draw, or that say they do."""
    for name, model in platform.models.items():
        if model.task is not Task.IMAGE:
            if model.pictures is not None:
                where = join("models", name, "pictures")
                yield InputError(where, f"must be left out where task is {model.task.value}")
            continue
        if model.engine is not Engine.DIFFUSION:
            message = "must be diffusion where task is image"
            yield InputError(join("models", name, "engine"), message, model.engine.value)
        if model.canary is not None:
            where = join("models", name, "canary")
            yield InputError(where, "must be left out where task is image")
