"""One step of training: the flow-matching loss, and the update of a LoRA adapter.

The base weights do not change. Each block recomputes its activations in the backward pass
(`jax.checkpoint`), so memory holds the activations of only one block at a time.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import optax
from diffusers import FluxTransformer2DModel

from ...training import Training
from .. import blocks
from ..lora import add_low_rank
from ..modules import Part, Weights
from ..programs import Geometry, places_of

_DENOISER: Any = FluxTransformer2DModel
State = tuple[Weights, Any]
"""The adapter, and the optimizer state."""


def is_trained(layer: str) -> bool:
    """Return whether a layer of the denoiser is changed: only the projections of attention."""
    return ".attn.to_" in layer


class Denoiser:
    """The denoiser with a low-rank change, block by block.

    Args:
        folder: Folder of the model.
        rank: Rank of the change.
    """

    def __init__(self, folder: Path, rank: int) -> None:
        def build(at: Path) -> Any:
            # diffusers' own attention: the platform's kernel has no backward pass
            return add_low_rank(_DENOISER.from_config(_DENOISER.load_config(at)), rank, is_trained)

        self.whole = Part(folder / "transformer", build, blocks.begin)
        self._blocks = [
            self.whole.seen_as(blocks.block(number))
            for number in range(blocks.count(self.whole.module))
        ]
        self._end = self.whole.seen_as(blocks.end)

    def __call__(self, weights: Weights, *given: Any) -> Any:
        """Return the flow."""
        picture, text, mood, *places = self.whole(weights, *given)
        for block in self._blocks:
            picture, text = jax.checkpoint(block)(weights, picture, text, mood, *places)
        return self._end(weights, picture, mood)


def fresh(denoiser: Denoiser, settings: Training) -> Weights:
    """Return an adapter that changes nothing yet: one half is noise, the other zero."""
    shapes = denoiser.whole.shapes(jnp.float32)
    names = sorted(name for name in shapes if ".lora_" in name)
    keys = jax.random.split(jax.random.key(settings.seed), len(names))
    return {
        name: jax.random.normal(key, shapes[name].shape) / settings.rank
        if name.endswith("down")
        else jnp.zeros(shapes[name].shape)
        for name, key in zip(names, keys, strict=True)
    }


def optimizer(settings: Training) -> optax.GradientTransformation:
    """Return AdamW as in diffusers' adapter training, with gradients clipped at 1."""
    return optax.chain(
        optax.clip_by_global_norm(1.0), optax.adamw(settings.learning_rate, weight_decay=1e-4)
    )


def step_of(
    denoiser: Denoiser, settings: Training, sizes: Geometry, dtype: Any
) -> Callable[..., tuple[State, jax.Array]]:
    """Return the function of one step: new state and loss.

    Its arguments are state, weights, latents of all images, both vectors of the prompt, and the
    step number. The step number seeds the noise, so an interrupted run resumes with the same noise.
    """
    change = optimizer(settings)
    places = places_of(sizes, *settings.sides, settings.text_tokens)

    def loss(
        adapter: Weights, weights: Weights, clean: Any, embeds: Any, pooled: Any, key: Any
    ) -> Any:
        keys = jax.random.split(key)
        noise = jax.random.normal(keys[0], clean.shape)
        share = jax.nn.sigmoid(jax.random.normal(keys[1], (clean.shape[0], 1, 1)))
        given = (1 - share) * clean + share * noise
        strength = jnp.full(clean.shape[:1], settings.guidance, dtype)
        flow = denoiser(
            {**weights, **{name: value.astype(dtype) for name, value in adapter.items()}},
            given.astype(dtype),
            jnp.repeat(embeds, clean.shape[0], 0),
            jnp.repeat(pooled, clean.shape[0], 0),
            share[:, 0, 0].astype(dtype),
            (*map(jnp.asarray, places), strength if sizes.has_guidance else None),
        )
        return jnp.mean((flow.astype(jnp.float32) - (noise - clean)) ** 2)

    def step(
        state: State, weights: Weights, latents: Any, embeds: Any, pooled: Any, number: Any
    ) -> tuple[State, jax.Array]:
        adapter, kept = state
        keys = jax.random.split(jax.random.fold_in(jax.random.key(settings.seed + 1), number))
        chosen = jax.random.randint(keys[0], (settings.batch,), 0, latents.shape[0])
        found, gradient = jax.value_and_grad(loss)(
            adapter, weights, latents[chosen], embeds, pooled, keys[1]
        )
        updates, kept = change.update(gradient, kept, adapter)
        changed: Any = optax.apply_updates(adapter, updates)
        return (changed, kept), found

    return jax.jit(step, donate_argnums=0)
