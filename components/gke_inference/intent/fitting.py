"""Whether rungs hold a model: the arithmetic of `gke_inference.sizing` on an intent."""

from collections.abc import Iterator

from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.rungs import Rung
from gke_inference.intent.intent import ServingIntent
from gke_inference.sizing.image_memory import check_copies_fit
from gke_inference.sizing.memory import Loaded, check_fit, loaded, weights_gib


def fit_problems(intent: ServingIntent) -> Iterator[InputError]:
    """Yield the first rung that does not hold the model."""
    for place, rung in intent.rungs.items():
        reason = unfit(intent, rung)
        if reason is not None:
            yield InputError("rungs", f"must hold the model on every rung; {place}: it {reason}")
            return


def loaded_model(intent: ServingIntent) -> Loaded:
    """Return a model that makes no images as its engine loads it."""
    return loaded(
        intent.weights,
        intent.served_name,
        parameters_billion=intent.parameters_billion,
        bits=intent.weight_bits,
        context=intent.context_tokens,
        kv_cache_dtype=intent.kv_cache_dtype,
    )


def unfit(intent: ServingIntent, rung: Rung) -> str | None:
    """Return why a rung does not hold a model, or None when it does."""
    if intent.task == "image":
        weights = weights_gib(intent.parameters_billion, intent.weight_bits)
        return check_copies_fit(rung.accelerator, weights)
    return check_fit(rung, loaded_model(intent), intent.tensor_parallel)
