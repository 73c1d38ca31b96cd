"""Rules about models that draw: sizes, and words that only they have."""

from collections.abc import Iterator

from infra.stack import Engine, Platform, Task
from infra.stack.problems import Problem, join

PATCH_PIXELS = 16
"""Of a side: eight pixels are a latent and two latents a patch, in Flux."""


def check_pictures(platform: Platform) -> Iterator[Problem]:
    """Yield what is wrong with the models of a platform that draw, or that say they do."""
    for name, model in platform.models.items():
        if model.task is not Task.IMAGE:
            if model.pictures is not None:
                where = join("models", name, "pictures")
                yield Problem(where, f"must be left out where task is {model.task.value}")
            continue
        if model.engine is not Engine.DIFFUSION:
            message = f"must be diffusion where task is image, got {model.engine.value!r}"
            yield Problem(join("models", name, "engine"), message)
        if model.canary is not None:
            where = join("models", name, "canary")
            yield Problem(where, "must be left out where task is image")
        for at, size in enumerate(() if model.pictures is None else model.pictures.sizes):
            if any(int(side) % PATCH_PIXELS for side in size.split("x")):
                where = join("models", name, "pictures", "sizes", at)
                yield Problem(where, f"must be multiples of {PATCH_PIXELS}, got {size}")
