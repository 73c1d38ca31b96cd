"""Fit of an intent on rungs, calculated by `gke_inference.sizing`."""

from collections.abc import Iterator

from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.rungs import Rung
from gke_inference.intent.diffusion_settings import Videos
from gke_inference.intent.host_memory import PREDICTION_ROOM_GIB
from gke_inference.intent.intent import ServingIntent
from gke_inference.intent.words import Task
from gke_inference.sizing.image_memory import (
    ImageCopy,
    adapters_gib,
    check_copies_fit,
    image_copies,
    video_room_gib,
)
from gke_inference.sizing.memory import Loaded, check_expert_fit, check_fit, loaded, size_gib


def fit_problems(intent: ServingIntent) -> Iterator[InputError]:
    """Yield the first rung that cannot hold the model."""
    for place, rung in intent.rungs.items():
        reason = unfit(intent, rung)
        if reason is not None:
            yield InputError("rungs", f"must hold the model on every rung; {place}: it {reason}")
            return


def loaded_model(intent: ServingIntent) -> Loaded:
    """Return a model, other than an image model, as its engine loads it."""
    return loaded(
        intent.weights,
        intent.served_name,
        parameters_billion=intent.size.parameters_billion,
        bits=intent.size.bits,
        context=intent.context,
        kv_cache_dtype=intent.settings.kv_cache_dtype,
    )


def _image_adapters(intent: ServingIntent) -> float:
    """Return GiB of the adapters that each chip of a model of images or videos keeps at most."""
    live, given, made = intent.live_adapters, len(intent.adapters), intent.generated
    return adapters_gib(
        given,
        in_request=1 if made is None or made.max_adapters is None else made.max_adapters,
        live_rank=1 if live is None else live.max_rank,
        live_slots=0 if live is None else live.slots,
        rank=intent.rank,
    )


def whole_copies(intent: ServingIntent) -> tuple[ImageCopy, ...]:
    """Return what each kind of chip holds whole; nothing for a model that chips share."""
    if intent.task is Task.PREDICT:
        return (ImageCopy("", intent.gib, 0.0, PREDICTION_ROOM_GIB),)
    if not intent.task.is_diffusion:
        return ()
    adapters, made = _image_adapters(intent), intent.generated
    if isinstance(made, Videos):
        return (ImageCopy("", intent.gib, adapters, video_room_gib(made.sizes, made.frames)),)
    first = (intent.weights, intent.served_name, size_gib(intent.size))
    further = (
        (each.weights, name, size_gib(each.size)) for name, each in intent.further_models.items()
    )
    return image_copies((first, *further), adapters, has_own_chips=bool(intent.chips_by_model))


def unfit(intent: ServingIntent, rung: Rung) -> str | None:
    """Return why a rung cannot hold a model, or None if it can."""
    if not rung.chips:
        return None  # `memory_problems` compares the model with the memory of the machine
    if copies := whole_copies(intent):
        reasons = (
            check_copies_fit(rung.accelerator, each.weights, each.adapters, each.room, each.of)
            for each in copies
        )
        return next((reason for reason in reasons if reason is not None), None)
    model = loaded_model(intent)
    if intent.experts is not None:
        return check_expert_fit(rung, model, intent.split or 1, intent.experts.redundant)
    return check_fit(rung, model, intent.settings.tensor_parallel)
