"""What is known of a model by its name: how large its weights are, how long its context."""

from planner.memory import weights_gib
from planner.shapes import shape_of
from policies.invariants.engines import Engine

_GUESSED_CONTEXT = 32_768  # what `shape_of` says of a model that it does not know


def size_gib(server: Engine) -> float | None:
    """Return the GiB of a model's weights; None where its names do not say."""
    quantization = server.container.line.flag("--quantization", "-q")
    for name in _names(server):
        try:
            shape = shape_of(name, quantization)
        except ValueError:
            continue
        return weights_gib(shape.parameters_billion, shape.bits)
    return None


def longest_context(server: Engine) -> int | None:
    """Return the tokens a model was made for; None where that is not known."""
    for name in _names(server):
        try:
            context = shape_of(name).context
        except ValueError:
            continue
        if context != _GUESSED_CONTEXT:
            return context
    return None


def _names(server: Engine) -> list[str]:
    """Return what the model is called: by its files, then by those who ask for it."""
    served = server.container.line.values("--served-model-name")
    return [*([server.model] if server.model else []), *served]
