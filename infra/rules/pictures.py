"""Rules about image models: sizes, and settings that only they have."""

from collections.abc import Iterator

from gke_inference.catalogue.input_error import InputError
from gke_inference.sizing.architectures import find_model, is_sdxl, known
from infra.stack import Engine, Model, Platform, Task
from infra.stack.problems import join

SDXL_TOKENS = 77
"""Tokens of a prompt for both encoders, which are CLIP."""


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
        yield from _check_sdxl(name, model)
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


def _check_sdxl(name: str, model: Model) -> Iterator[InputError]:
    """Yield settings that a server of Stable Diffusion XL rejects or ignores."""
    where, pictures = ("models", name), model.pictures
    sdxl: list[str] = []
    if is_sdxl(model.weights, name):
        sdxl.append(name)
        sigmas = pictures is not None and pictures.sigmas is not None
        yield from _check_reading(where, (*where, "pictures"), name, model.context, sigmas)
    for other, further in model.further_models.items():
        if is_sdxl(further.weights, other):
            sdxl.append(other)
            place = (*where, "pictures", "models", other)
            sigmas = further.sigmas is not None
            yield from _check_reading(place, place, other, further.context, sigmas)
    if sdxl and pictures is not None and pictures.step_cache is not None:
        why = "a UNet has no first block whose output others reuse"
        rule = f"must not be set for {sdxl[0]}: {why}"
        yield InputError(join(*where, "pictures", "step_cache"), rule, pictures.step_cache)


def _check_reading(
    where: tuple[str, ...], pictures: tuple[str, ...], name: str, context: int | None, sigmas: bool
) -> Iterator[InputError]:
    if context not in (None, SDXL_TOKENS):
        why = "Stable Diffusion XL reads no longer prompts"
        yield InputError(
            join(*where, "context"), f"must be {SDXL_TOKENS} for {name}: {why}", context
        )
    if sigmas:
        rule = f"must not be set for {name}: its schedule is in its scheduler_config.json"
        yield InputError(join(*pictures, "sigmas"), rule)
