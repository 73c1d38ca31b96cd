"""Weights in eight bits: the long text encoder's, so that all of FLUX.1 fits one chip.

Each row of a matrix is whole numbers and one scale; a program widens them where it uses them.
Embeddings stay as they are: they are looked up, not multiplied.
"""

import re
from typing import Any

import jax
import jax.numpy as jnp

from .modules import Weights

_SCALE = "#scale"
_LARGEST = 127.0
_TABLES = r"embed|^shared\.|relative_attention_bias"


def _is_narrowed(name: str, value: Any) -> bool:
    return name.endswith(".weight") and len(value.shape) == 2 and not re.search(_TABLES, name)


def narrowed(weights: Weights) -> Weights:
    """Return weights whose matrices are in eight bits, with the scale of each row beside them."""
    out: Weights = {}
    for name, value in weights.items():
        if not _is_narrowed(name, value):
            out[name] = value
            continue
        wide = value.astype(jnp.float32)
        scale = jnp.maximum(jnp.max(jnp.abs(wide), axis=1, keepdims=True), 1e-12) / _LARGEST
        out[name] = jnp.round(wide / scale).astype(jnp.int8)
        out[name + _SCALE] = scale
    return out


def narrowed_shapes(shapes: Weights) -> Weights:
    """Return the shapes that `narrowed` returns."""
    out: Weights = {}
    for name, value in shapes.items():
        if not _is_narrowed(name, value):
            out[name] = value
            continue
        place = {"sharding": value.sharding}
        out[name] = jax.ShapeDtypeStruct(value.shape, jnp.int8, **place)
        sides = (value.shape[0], 1)
        out[name + _SCALE] = jax.ShapeDtypeStruct(sides, jnp.float32, **place)
    return out


def widened(weights: Weights, dtype: Any) -> Weights:
    """Return weights in the format of the modules; XLA converts them on use inside a program."""
    return {
        name: (value.astype(jnp.float32) * weights[name + _SCALE]).astype(dtype)
        if name + _SCALE in weights
        else value
        for name, value in weights.items()
        if not name.endswith(_SCALE)
    }
