"""Fit of an intent on rungs, calculated by `gke_inference.sizing`."""

from collections.abc import Iterator

from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.rungs import Rung
from gke_inference.intent.diffusion_settings import Videos
from gke_inference.intent.intent import ServingIntent
from gke_inference.intent.words import Task
from gke_inference.sizing.image_memory import (
    adapters_gib,
    check_copies_fit,
    image_room_gib,
    video_room_gib,
)
from gke_inference.sizing.memory import Loaded, check_expert_fit, check_fit, loaded

PREDICTION_ROOM_GIB = 1.0
"""Memory beside the weights of a predictive model, for the runtime and for activations (assumed).
Triton loads an instance on each GPU, unless config.pbtxt has others."""


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
    """Return GiB of the adapters that each chip of an image model keeps at most."""
    live, given = intent.live_adapters, len(intent.adapters)
    if live is None:
        return adapters_gib(given, rank=intent.rank)
    return adapters_gib(given, rank=intent.rank, live_slots=live.slots, live_rank=live.max_rank)


def _room_gib(intent: ServingIntent) -> float:
    if isinstance(intent.generated, Videos):
        return video_room_gib(intent.generated.sizes, intent.generated.frames)
    further = ((each.weights, name) for name, each in intent.further_models.items())
    return image_room_gib([(intent.weights, intent.served_name), *further])


def unfit(intent: ServingIntent, rung: Rung) -> str | None:
    """Return why a rung cannot hold a model, or None if it can."""
    if intent.task.is_diffusion:
        return check_copies_fit(
            rung.accelerator, intent.gib, _image_adapters(intent), _room_gib(intent)
        )
    if intent.task is Task.PREDICT:
        return check_copies_fit(rung.accelerator, intent.gib, room=PREDICTION_ROOM_GIB)
    model = loaded_model(intent)
    if intent.experts is not None:
        return check_expert_fit(rung, model, intent.split or 1, intent.experts.redundant)
    return check_fit(rung, model, intent.settings.tensor_parallel)
