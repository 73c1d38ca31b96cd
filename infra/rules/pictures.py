"""Rules about models of images and videos: settings that only they have, and their families."""

from collections.abc import Iterator

from gke_inference.catalogue.input_error import InputError
from gke_inference.sizing.architectures import find_model, is_sdxl, known
from infra.stack import Model, Platform, Task
from infra.stack.problems import join

SDXL_TOKENS = 77
"""Tokens of a prompt for both encoders, which are CLIP."""
WAN_TOKENS = 512
"""Maximum tokens of a prompt of Wan 2.1 (`text_len` of Wan-Video/Wan2.1 wan/configs)."""


def check_image_models(platform: Platform) -> Iterator[InputError]:
    """Yield the problems of a platform's models of images and videos."""
    for name, model in platform.models.items():
        task = model.task
        for field, own in (("images", Task.IMAGE), ("videos", Task.VIDEO)):
            if task is not own and getattr(model, field) is not None:
                rule = f"must not be set when task is {task.value}"
                yield InputError(join("models", name, field), rule)
        if not task.is_diffusion:
            continue
        if model.engine != "diffusion":
            message = f"must be diffusion when task is {task.value}"
            yield InputError(join("models", name, "engine"), message, model.engine)
        yield from _check_family(("models", name), model.weights, name, task)
        if model.canary is not None:
            where = join("models", name, "canary")
            yield InputError(where, f"must not be set when task is {task.value}")
        if task is Task.VIDEO:
            if model.context > WAN_TOKENS:
                rule = f"must be at most {WAN_TOKENS} for {name}: Wan 2.1 reads no longer prompts"
                yield InputError(join("models", name, "context"), rule, model.context)
            continue
        for other, further in model.further_models.items():
            where = ("models", name, "images", "models", other)
            yield from _check_family(where, further.weights, other, task)
        yield from _check_sdxl(name, model)


def _check_family(
    where: tuple[str, ...], weights: str, name: str, task: Task
) -> Iterator[InputError]:
    """Yield that a model is known, and not one that the image server can run for a task."""
    found = find_model(weights, name)
    is_video = task is Task.VIDEO
    if found is not None and not (found.pipeline and found.is_video is is_video):
        able = [each.name for each in known() if each.pipeline and each.is_video is is_video]
        rule = f"must be of a model that engine diffusion can run ({' or '.join(able)})"
        yield InputError(join(*where, "weights"), rule, weights)


def _check_sdxl(name: str, model: Model) -> Iterator[InputError]:
    """Yield settings that a server of Stable Diffusion XL rejects or ignores."""
    where, images = ("models", name), model.images
    sdxl: list[str] = []
    if is_sdxl(model.weights, name):
        sdxl.append(name)
        sigmas = images is not None and images.sigmas is not None
        yield from _check_reading(where, (*where, "images"), name, model.context, sigmas)
    for other, further in model.further_models.items():
        if is_sdxl(further.weights, other):
            sdxl.append(other)
            place = (*where, "images", "models", other)
            sigmas = further.sigmas is not None
            yield from _check_reading(place, place, other, further.context, sigmas)
    if sdxl and images is not None and images.step_cache is not None:
        why = "a UNet has no first block whose output others reuse"
        rule = f"must not be set for {sdxl[0]}: {why}"
        yield InputError(join(*where, "images", "step_cache"), rule, images.step_cache)


def _check_reading(
    where: tuple[str, ...], images: tuple[str, ...], name: str, context: int | None, sigmas: bool
) -> Iterator[InputError]:
    if context not in (None, SDXL_TOKENS):
        why = "Stable Diffusion XL reads no longer prompts"
        yield InputError(
            join(*where, "context"), f"must be {SDXL_TOKENS} for {name}: {why}", context
        )
    if sigmas:
        rule = f"must not be set for {name}: its schedule is in its scheduler_config.json"
        yield InputError(join(*images, "sigmas"), rule)
