"""Memory footprint of a stack's model, as its engine loads it."""

from gke_inference.sizing.memory import Loaded, loaded
from infra.stack import Model


def loaded_model(name: str, model: Model) -> Loaded:
    """Return a model as its engine loads it.

    Args:
        name: Name of the model in the stack.
        model: Any model except an image model.
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
