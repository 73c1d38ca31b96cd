"""The compiler's results for every choice: attention blocks, forms of rotary embedding."""

import statistics
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp

from . import rotary
from .compiler import Compiled, array, compiled, versions
from .estimate import call_ms, kernel_ms, published
from .shapes import Blocks
from .tables import load
from .tuner import CodeSizes

_HEADS, _POSITIONS, _SIZE = 24, 4608, 128
"""Queries of FLUX.1 at 1024 by 1024 with 512 tokens of text."""
_CHOICES = tuple(
    Blocks(*sizes)
    for sizes in (
        (128, 128, 128),
        (512, 512, 512),
        (1024, 1024, 512),
        (1024, 1024, 1024),
        (2048, 2048, 512),
        (2048, 2048, 1024),
    )
)
"""Blocks among which the published ones are ranked."""
_IN_MODEL = "norm, rotation, transposition"


def report(generation: str, sizes: CodeSizes) -> dict[str, Any]:
    """Return the evidence for a generation, as used in the report's tables."""
    jax, libtpu = versions()
    return {
        "generation": generation,
        "jax": jax,
        "libtpu": libtpu,
        "attention": [
            {
                "name": one.name,
                "shape": str(one.shape),
                "blocks": str(one.blocks),
                "reason": one.reason,
                "code_bytes": one.code_bytes,
                "tried": one.tried,
                "refused": one.refused,
                "estimate_ms": one.estimate_ms,
                "default_ms": one.default_ms,
                "measured_ms": None if one.measured is None else one.measured.ms,
            }
            for one in load(generation)
        ],
        "estimate": errors(),
        "ranking": ranking(sizes) if generation == "v6e" else None,
        "rotary": rotary_costs(generation),
    }


def errors() -> dict[str, float]:
    """Return the errors of the estimate against published times: all of them and the largest."""
    off = [abs(call_ms(point) / point.ms - 1) for point in published()]
    return {"points": len(off), "median": statistics.median(off), "largest": max(off)}


def ranking(sizes: CodeSizes) -> dict[str, Any]:
    """Return the rank of the published blocks of each shape in the order of the estimate.

    `places` counts them by place, `of` by how many there are to choose from; `behind` is the most
    that they are estimated to be slower than the first.
    """
    places: dict[int, int] = {}
    behind: list[float] = []
    for point in published():
        estimates = {
            blocks: kernel_ms(point.shape, blocks, code, "v6e")
            for blocks in _CHOICES
            if blocks.q <= point.shape.queries
            and (code := sizes.of(point.shape, blocks, "v6e")[0]) is not None
        }
        order = sorted(estimates.values())
        own = estimates[point.blocks]
        place = order.index(own) + 1
        places[place] = places.get(place, 0) + 1
        behind.append(own / order[0] - 1)
    return {"places": places, "behind": max(behind)}


def rotary_costs(
    generation: str, forms: Sequence[rotary.Form] = rotary.FORMS
) -> list[dict[str, Any]]:
    """Return the cost of each form of rotary embedding, for Flux's queries.

    First alone; then with the norm before it and the transposition from what a projection gives,
    as a model has them.

    Args:
        generation: Generation of the chip.
        forms: Forms to compile.
    """
    x = array(generation, (1, _HEADS, _POSITIONS, _SIZE), jnp.bfloat16)
    projected = array(generation, (1, _POSITIONS, _HEADS * _SIZE), jnp.bfloat16)
    table = array(generation, (_POSITIONS, _SIZE), jnp.float32)
    weight = array(generation, (_SIZE,), jnp.float32)

    def alone(form: rotary.Form) -> Callable[..., Any]:
        return lambda x, cos, sin: rotary.rotary(x, (cos, sin), form=form)

    def in_model(form: rotary.Form) -> Callable[..., Any]:
        def call(x: Any, cos: Any, sin: Any, weight: Any) -> Any:
            if form == "fused":
                return rotary.heads_first(x, (cos, sin), norm_weight=weight)
            turned = jnp.swapaxes(x.reshape(1, _POSITIONS, _HEADS, _SIZE), 1, 2)
            return rotary.rotary(turned, (cos, sin), form=form, norm_weight=weight)

        return call

    return [
        *(_row("alone", form, compiled(alone(form), x, table, table)[0]) for form in forms),
        *(
            _row(_IN_MODEL, form, compiled(in_model(form), projected, table, table, weight)[0])
            for form in forms
        ),
    ]


def _row(what: str, form: str, program: Compiled) -> dict[str, Any]:
    return {
        "what": what,
        "form": form,
        "bytes_moved": program.bytes_moved,
        "temporary_bytes": program.temporary_bytes,
        "cycles": program.cycles,
        "code_bytes": program.code_bytes,
    }
