"""Model properties that the planner derives from the name: size, layers and context length."""

from gke_inference.sizing.architectures import find
from gke_inference.sizing.architectures import longest_context as published_context
from gke_inference.sizing.memory import Loaded
from gke_inference.sizing.shapes import shape_of
from policies.objects.engines import Engine


def loaded_of(server: Engine) -> Loaded | None:
    """Return a model as its engine loads it, or None if its names do not contain its size.

    The layers come from the planner's table, or are None for a model that is not in it. The context
    is 0 if no flag sets it, since it may be in a file that was not read.
    """
    line, written = server.container.line, server.context or ""
    quantization = line.flag("--quantization", "-q")
    for name in _names(server):
        try:
            shape = shape_of(name, quantization)
        except ValueError:
            continue
        known = find(name)
        kept = shape if known is not None and not known.is_diffusion else None
        dtype = line.flag("--kv-cache-dtype") or ""
        return Loaded(
            shape.parameters_billion,
            shape.bits,
            int(written) if written.isdigit() else 0,
            kept,
            8 if "fp8" in dtype else 16,
        )
    return None


def longest_context(server: Engine) -> int | None:
    """Return the maximum context of a model in tokens, or None if the planner lacks it."""
    found = (published_context(name, name) for name in _names(server))
    return next((known[1] for known in found if known is not None), None)


def _names(server: Engine) -> list[str]:
    """Return the names of a model: that of its files, then the served names."""
    served = server.container.line.values("--served-model-name")
    return [*([server.model] if server.model else []), *served]
