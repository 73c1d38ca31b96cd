"""What engines reach of their hardware, fitted to published measurements.

A field of `Reached` is a base value, multiplied by the factors of its effects: of an engine, a
generation of hardware, a precision. A label without a factor has 1. `fitting` fits them; the table
is data/reached.yaml, which `bench accuracy --update` writes. No effect belongs to a model: what one
model is slower or faster by is `correction`'s, and never reaches another model or engine.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from gke_inference.catalogue.engines import EngineFacts, engine_names
from gke_inference.catalogue.engines import engine as engine_facts
from gke_inference.sizing.shapes import ModelShape
from planner.fit.chips import ACCELERATORS, accelerator
from planner.fit.tables import table
from planner.speed.roofline_step import Reached

Table = Mapping[str, Mapping[str, Any]]
"""By field of `Reached`: `base`, and `factors` by label."""

_GENERATION = {
    "8.0": "ampere", "8.9": "ada", "9.0": "hopper", "10.0": "blackwell", "12.0": "rtx-pro",
}  # fmt: skip
"""By CUDA's compute capability."""


def generation_of(name: str) -> str:
    """Return the generation of an accelerator, by GKE's label value; a TPU is one of its own."""
    chip = ACCELERATORS.get(name)
    return name if chip is None else _GENERATION.get(chip.compute_capability or "", name)


@cache
def engine_of(text: str) -> str:
    """Return the engine that the text of a published row, or a user, names.

    No published row is for TGI. It has its own name, so its interval is wider.
    """
    names = (name for name in engine_names() if text.lower().startswith(name))
    return next((engine_facts(name).measured_as for name in names), EngineFacts.measured_as)


def labels(engine: str, name: str, bits: int, *, is_mixture: bool) -> dict[str, str]:
    """Return the labels of an engine on an accelerator, by kind of effect.

    Args:
        engine: As `engine_of` returns it.
        name: GKE's label value of the accelerator.
        bits: Bits of a weight.
        is_mixture: Whether the model is a mixture of experts.
    """
    kind, generation = accelerator(name).kind, generation_of(name)
    return {
        "engine": engine,
        "engine of kind": f"{engine} {kind}",
        "engine of type": f"{engine} {'moe' if is_mixture else 'dense'}",
        "generation": generation,
        "generation at bits": f"{generation} {bits}",
        "kind at bits": f"{kind} {bits}",
        "type": "moe" if is_mixture else "dense",
        "quantized": "quantized" if bits < 16 else "16 bits",
    }


def reached(constants: Table, found: Mapping[str, str]) -> Reached:
    """Return the constants of labels."""
    values: dict[str, float] = {}
    for field, one in constants.items():
        factors = one["factors"]
        logs = [
            math.log(factors[kind][label])
            for kind, label in found.items()
            if label in factors.get(kind, ())
        ]
        values[field] = one["base"] * math.exp(sum(logs))
    return replace(Reached(), **values)


def reached_of(engine: str, name: str, shape: ModelShape) -> Reached:
    """Return what an engine reaches on an accelerator with a model.

    Args:
        engine: As published rows or users name it.
        name: GKE's label value of the accelerator.
        shape: Shape of the model at its serving precision.
    """
    return _reached(engine_of(engine), name, shape.bits, shape.is_mixture)


def forget() -> None:
    """Forget the constants, after the table changed."""
    _reached.cache_clear()


@cache
def _reached(engine: str, name: str, bits: int, is_mixture: bool) -> Reached:
    return reached(table("reached")["constants"], labels(engine, name, bits, is_mixture=is_mixture))
