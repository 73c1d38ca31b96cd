"""Whether a rung holds a model of a stack: the stack's words put to the planner's memory."""

from gke_inference.catalogue.rungs import Rung
from gke_inference.sizing.image_memory import check_copies_fit
from gke_inference.sizing.memory import Loaded, check_fit, loaded, weights_gib
from infra.stack import Model, Task


def loaded_model(name: str, model: Model) -> Loaded:
    """Return a model as its engine loads it.

    Args:
        name: of the model in the stack.
        model: that makes no pictures.
    """
    dtype = model.settings.kv_cache_dtype
    return loaded(
        model.weights,
        name,
        parameters_billion=model.size.parameters_billion,
        bits=model.size.bits,
        context=model.context,
        kv_cache_dtype=dtype.value if dtype is not None else None,
    )


def unfit(name: str, model: Model, rung: Rung) -> str | None:
    """Return why a rung does not hold a model, or None when it does."""
    if model.task is Task.IMAGE:
        weights = weights_gib(model.size.parameters_billion, model.size.bits)
        return check_copies_fit(rung.accelerator, weights)
    return check_fit(rung, loaded_model(name, model), model.settings.tensor_parallel)
