"""The number format of this process's device."""

from typing import Any

import jax
import jax.numpy as jnp


def data_type() -> Any:
    """Return the number format of this process's device: bfloat16, or float32 on CPUs."""
    return jnp.float32 if jax.default_backend() == "cpu" else jnp.bfloat16
