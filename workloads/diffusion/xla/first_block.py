"""First-block caching: a denoising step reuses the other blocks if the first changed little.

The denoiser's first block runs in every step. If its residual is close to the one from the last
step that computed all blocks, the step reuses the residual of the other blocks from that step. The
measure is that of diffusers' `FirstBlockCacheConfig`, which is the reference of the tests:
mean|now - then| / mean|then|, up to a threshold. A batch reuses only if every image may.

The choice is made on the device with `lax.cond`, in one program, without the host.
"""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from . import blocks
from .modules import Weights, transformer

Kept = tuple[Any, Any]
"""Residuals of the first block and of the others, from the last step that computed all blocks."""


class Split:
    """The denoiser in three parts that share their weights: first block, other blocks, the end."""

    def __init__(self, folder: Path, rank: int, generation: str | None) -> None:
        whole = transformer(folder, rank=rank, generation=generation)
        self._begin = whole.seen_as(blocks.begin)
        self._first, *self._others = [
            whole.seen_as(blocks.block(number)) for number in range(blocks.count(whole.module))
        ]
        self._end = whole.seen_as(blocks.end)

    def __call__(
        self, weights: Weights, kept: Kept, threshold: Any, *given: Any
    ) -> tuple[Any, Kept, Any]:
        """Return the flow, the state for the next step, and whether the step reused blocks.

        Args:
            weights: Weights of the denoiser, including low-rank changes.
            kept: State of the previous step; zeros before the first.
            threshold: Relative change up to which a step reuses.
            given: Inputs of the whole denoiser.
        """
        before, text, mood, *places = self._begin(weights, *given)
        first, words = self._first(weights, before, text, mood, *places)
        added = first - before

        def compute() -> tuple[Any, Any]:
            picture, text = first, words
            for block in self._others:
                picture, text = block(weights, picture, text, mood, *places)
            return added, picture - first

        is_reused = jnp.all(change(added, kept[0]) <= threshold)
        kept = jax.lax.cond(is_reused, lambda: kept, compute)
        return self._end(weights, first + kept[1], mood), kept, is_reused


def change(now: Any, then: Any) -> Any:
    """Return the relative change of each image of a batch; infinite, or no number, from zeros."""
    wide = now.astype(jnp.float32), then.astype(jnp.float32)
    sides = tuple(range(1, now.ndim))
    return jnp.abs(wide[0] - wide[1]).mean(sides) / jnp.abs(wide[1]).mean(sides)
