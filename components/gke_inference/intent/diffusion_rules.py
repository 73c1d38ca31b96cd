"""Rules about models of images and videos: what the image server can run, and with what."""

from collections.abc import Iterator
from itertools import pairwise

from gke_inference.catalogue.engines import engines_for
from gke_inference.catalogue.files.buckets import bucket_in
from gke_inference.catalogue.input_error import Bare, InputError
from gke_inference.catalogue.problems import join
from gke_inference.intent.diffusion_settings import FurtherModel, ImageGeneration, Videos
from gke_inference.intent.intent import ServingIntent
from gke_inference.intent.words import Task
from gke_inference.sizing.architectures import find_model, is_sdxl, known
from gke_inference.sizing.image_memory import LARGEST_IMAGE_RANK, padded_rank

PATCH_PIXELS = 16
"""Size granularity in pixels: in FLUX.1 and Wan, eight pixels are a latent and two latents a
patch."""
FRAMES_PER_LATENT = 4
"""Frames that the decoder of Wan 2.1 makes of each latent frame but the first, which is one frame
(`scale_factor_temporal` of diffusers' AutoencoderKLWan)."""
SDXL_TOKENS = 77
"""Tokens of a prompt for both encoders, which are CLIP."""
WAN_TOKENS = 512
"""Maximum tokens of a prompt of Wan 2.1 (`text_len` of Wan-Video/Wan2.1 wan/configs)."""
_IMAGES, _VIDEOS = "images", "videos"
_MODELS = join(_IMAGES, "models")


def diffusion_problems(intent: ServingIntent) -> Iterator[InputError]:
    """Yield settings of images and videos that a model cannot have."""
    task = intent.task
    for field, own in ((_IMAGES, Task.IMAGE), (_VIDEOS, Task.VIDEO)):
        if task is not own and getattr(intent, field) is not None:
            yield InputError(field, f"must not be set when task is {task}")
    if not task.is_diffusion:
        return
    yield from _family("weights", intent.weights, intent.served_name, task)
    yield from _adapters(intent)
    if isinstance(intent.generated, Videos):
        yield from _videos(intent, intent.generated)
    elif intent.generated is not None:
        yield from _images(intent, intent.generated)


def _adapters(intent: ServingIntent) -> Iterator[InputError]:
    """Yield a number of adapters that no request can name, or no program can have together."""
    made = intent.generated
    if made is None or made.max_adapters is None:
        return
    where = join(_VIDEOS if intent.task is Task.VIDEO else _IMAGES, "max_adapters")
    live, ranks = intent.live_adapters, list[int]()
    if intent.adapters:
        ranks.append(intent.rank)
    if live is not None:
        ranks.append(live.max_rank)
    if not ranks:
        rule = "must not be set without adapters or live_adapters"
        yield InputError(where, rule, made.max_adapters)
        return
    rank = padded_rank(max(ranks))
    if rank * made.max_adapters > LARGEST_IMAGE_RANK:
        rule = f"must be at most {LARGEST_IMAGE_RANK // rank} for adapters of rank {rank}"
        yield InputError(where, rule, made.max_adapters)


def _videos(intent: ServingIntent, videos: Videos) -> Iterator[InputError]:
    yield from _sizes(_VIDEOS, videos.sizes)
    for at, frames in enumerate(videos.frames):
        if frames < 1 or frames % FRAMES_PER_LATENT != 1:
            rule = f"must be a multiple of {FRAMES_PER_LATENT} plus 1, such as 81"
            yield InputError(join(_VIDEOS, "frames", at), rule, frames)
    if intent.settings.max_batch not in (None, 1):
        rule = "must be 1 when task is video: a chip generates one video at a time"
        yield InputError("settings.max_batch", rule, intent.settings.max_batch)
    if intent.context > WAN_TOKENS:
        name = intent.served_name
        rule = f"must be at most {WAN_TOKENS} for {name}: Wan 2.1 reads no longer prompts"
        yield InputError("context", rule, intent.context)


def _images(intent: ServingIntent, images: ImageGeneration) -> Iterator[InputError]:
    yield from _sizes(_IMAGES, images.sizes)
    yield from _schedule(_IMAGES, images)
    if images.sigmas and images.step_cache is not None:
        rule = "must not be set when sigmas are given: a distilled schedule has no steps to skip"
        yield InputError(join(_IMAGES, "step_cache"), rule, images.step_cache)
    for name, model in images.models.items():
        where = join(_MODELS, name)
        if bucket_in(model.weights) != bucket_in(intent.weights):
            rule = f"must be in the bucket of the first model ({intent.weights})"
            yield InputError(join(where, "weights"), rule, model.weights)
        yield from _schedule(where, model)
        yield from _family(join(where, "weights"), model.weights, name, intent.task)
    yield from _chips(intent, images)
    yield from _sdxl(intent, images)


def _chips(intent: ServingIntent, images: ImageGeneration) -> Iterator[InputError]:
    """Yield chips of models that are not those of every rung, or that hold one model twice."""
    found = intent.chips_by_model
    if not found:
        return
    where = join(_IMAGES, "chips")
    if not images.models:
        rule = "must not be set without further models: every chip holds the only one"
        yield InputError(where, rule, images.chips)
        return
    for name in (intent.served_name, *images.models):
        if name not in found:
            at = where if name == intent.served_name else join(_MODELS, name, "chips")
            set_for = next(iter(found))
            rule = f"must be set, as for {set_for}: either every model has chips of its own or none"
            yield InputError(at, rule)
            return
    shown = Bare(" + ".join(map(str, found.values())))
    for place, rung in intent.rungs.items():
        if sum(found.values()) != rung.devices:
            rule = f"must add up to {rung.devices} over all models, the chips of {place}"
            yield InputError(where, rule, shown)
            return
    holders = {intent.weights: intent.served_name}
    for name, model in images.models.items():
        if model.weights in holders:
            rule = f"must not be those of {holders[model.weights]}: give that model more chips"
            yield InputError(join(_MODELS, name, "weights"), rule, model.weights)
        holders.setdefault(model.weights, name)


def _sizes(where: str, sizes: tuple[str, ...]) -> Iterator[InputError]:
    for at, size in enumerate(sizes):
        if any(int(side) % PATCH_PIXELS for side in size.split("x")):
            rule = f"must be multiples of {PATCH_PIXELS}"
            yield InputError(join(where, "sizes", at), rule, Bare(size))


def _schedule(where: str, model: ImageGeneration | FurtherModel) -> Iterator[InputError]:
    """Yield why a model cannot have a fixed schedule."""
    sigmas = model.sigmas
    if sigmas is None:
        return
    if sigmas[0] > 1 or not all(first > second for first, second in pairwise((*sigmas, 0.0))):
        shown = Bare(", ".join(f"{sigma:g}" for sigma in sigmas))
        rule = "must be strictly decreasing numbers in (0, 1]"
        yield InputError(join(where, "sigmas"), rule, shown)
    if model.steps is not None:
        rule = "must not be set when sigmas are given: each is one step"
        yield InputError(join(where, "steps"), rule, model.steps)


def _family(where: str, weights: str, name: str, task: Task) -> Iterator[InputError]:
    """Yield that a model is known, and not one that the image server can run for a task."""
    found = find_model(weights, name)
    is_video = task is Task.VIDEO
    if found is not None and not (found.pipeline and found.is_video is is_video):
        able = [each.name for each in known() if each.pipeline and each.is_video is is_video]
        engines = " or ".join(engines_for(task))
        rule = f"must be of a model that engine {engines} can run ({' or '.join(able)})"
        yield InputError(where, rule, weights)


def _sdxl(intent: ServingIntent, images: ImageGeneration) -> Iterator[InputError]:
    """Yield settings that a server of Stable Diffusion XL rejects or ignores."""
    sdxl: list[str] = []
    if is_sdxl(intent.weights, intent.served_name):
        sdxl.append(intent.served_name)
        yield from _reading("", _IMAGES, intent.served_name, intent.context, images)
    for name, model in images.models.items():
        if is_sdxl(model.weights, name):
            sdxl.append(name)
            where = join(_MODELS, name)
            yield from _reading(where, where, name, model.context, model)
    if sdxl and images.step_cache is not None:
        why = "a UNet has no first block whose output others reuse"
        rule = f"must not be set for {sdxl[0]}: {why}"
        yield InputError(join(_IMAGES, "step_cache"), rule, images.step_cache)


def _reading(
    where: str, steps: str, name: str, context: int | None, model: ImageGeneration | FurtherModel
) -> Iterator[InputError]:
    """Yield a length of prompts or a schedule that Stable Diffusion XL does not have.

    Args:
        where: Path of the part with `context`.
        steps: Path of the part with `sigmas`.
        name: Name of the model.
        context: Length of its prompts, None for that of the first model.
        model: Settings of its steps.
    """
    if context not in (None, SDXL_TOKENS):
        why = "Stable Diffusion XL reads no longer prompts"
        rule = f"must be {SDXL_TOKENS} for {name}: {why}"
        yield InputError(join(where, "context"), rule, context)
    if model.sigmas is not None:
        rule = f"must not be set for {name}: its schedule is in its scheduler_config.json"
        yield InputError(join(steps, "sigmas"), rule)
