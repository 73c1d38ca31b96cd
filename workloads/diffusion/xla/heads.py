"""What the attention processors of all families share.

Each processor keeps its own signature: diffusers reads from it which arguments a processor takes.
"""

from typing import Any

import jax
import jax.numpy as jnp


def refuse_mask(mask: Any) -> None:
    """Check that attention has no mask; no family here uses one.

    Raises:
        ValueError: There is one.
    """
    if mask is not None:
        raise ValueError("attention_mask: must not be set: the kernel does not support it")


def to_heads(given: jax.Array, heads: int) -> jax.Array:
    """Return (batch, tokens, channels) as (batch, heads, tokens, channels of a head)."""
    return jnp.swapaxes(given.reshape(*given.shape[:2], heads, -1), 1, 2)


def from_heads(given: jax.Array) -> jax.Array:
    """Return (batch, heads, tokens, channels of a head) as (batch, tokens, channels)."""
    turned = jnp.swapaxes(given, 1, 2)
    return turned.reshape(*turned.shape[:2], -1)
