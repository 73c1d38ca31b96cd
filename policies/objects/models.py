"""What the planner knows of a model by its name: its size, its layers, how long its context."""

from gke_inference.sizing.architectures import find
from gke_inference.sizing.memory import Loaded
from gke_inference.sizing.shapes import shape_of
from policies.objects.engines import Engine


def loaded_of(server: Engine) -> Loaded | None:
    """Return a model as its engine loads it; None where its names do not say its size.

    The layers are those of the planner's table; of a model that it does not have, none. So is the
    context where no flag says it: it may stand in a file that was not read.
    """
    line, written = server.container.line, server.context or ""
    quantization = line.flag("--quantization", "-q")
    for name in _names(server):
        try:
            shape = shape_of(name, quantization)
        except ValueError:
            continue
        known = find(name)
        kept = shape if known is not None and known.kind != "diffusion" else None
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
    """Return the tokens a model was made for; None where the planner's table lacks it."""
    found = (find(name) for name in _names(server))
    return next((known.context for known in found if known is not None and known.context), None)


def _names(server: Engine) -> list[str]:
    """Return what the model is called: by its files, then by those who ask for it."""
    served = server.container.line.values("--served-model-name")
    return [*([server.model] if server.model else []), *served]
