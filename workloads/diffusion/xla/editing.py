"""What a model of FLUX.1 gets of an image to change, as diffusers' pipelines give it.

- Image to image (`FluxImg2ImgPipeline`): denoising starts at a later step, from the noised image.
- With a mask (`FluxInpaintPipeline`): after each step, what is outside of it is again the image, as
  noisy as that step leaves the rest.
- `FluxFillPipeline`: each step gets the image without what is masked, and the mask, as further
  channels.
- `FluxKontextPipeline`: each step gets the image as further patches.
"""

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from ..families import FILL, KONTEXT
from ..work import Batch, Edit
from .keys import Key, Moment
from .programs import Geometry, Programs, packed

Encode = Callable[[Key, np.ndarray], tuple[Any, Any]]
"""Takes a program and pixels, and returns mean and deviation of the image's latents."""


@dataclass(frozen=True)
class Source:
    """An image to change, on the device."""

    latents: jax.Array
    """Of the image, for each place of a batch."""
    noise: jax.Array
    mask: jax.Array | None
    """1 where the image is edited, and 0; None: everywhere."""
    context: jax.Array | None
    """What each step gets besides the latents."""

    def begin(self, moment: Moment) -> jax.Array:
        """Return the latents before the first step that runs."""
        return self._noised(moment.now)

    def keep(self, latents: jax.Array, then: float) -> jax.Array:
        """Return latents after a step to a noise level, with the image outside of the mask."""
        if self.mask is None:
            return latents
        return (1 - self.mask) * self._noised(then) + self.mask * latents

    def _noised(self, share: float) -> jax.Array:
        level = np.float32(share)
        return level * self.noise + (np.float32(1) - level) * self.latents


def source_of(batch: Batch, edit: Edit, size: int, programs: Programs, encode: Encode) -> Source:
    """Return the image of a batch, with a place for each image of a padded batch."""
    sizes, how = programs.geometry, programs.edits
    pixels, where = pixels_of(batch, edit)
    draws = [_draws(seed, sizes, batch.height, batch.width) for seed in batch.seeds]
    draws += [draws[-1]] * (size - len(draws))
    key = Key("encode", 1, batch.height, batch.width)

    def latents_of(image: np.ndarray, drawn: int | None) -> jax.Array:
        mean, deviation = encode(key, image)
        found = jnp.repeat(mean, size, axis=0)
        if drawn is not None:
            found = found + deviation * jnp.asarray(np.stack([each[drawn] for each in draws]))
        return (found - sizes.shift_factor) * sizes.scaling_factor

    if how == KONTEXT:  # the mode of the image, and the first draw is the noise
        noise = jnp.asarray(np.stack([each[0] for each in draws]))
        image = latents_of(pixels, None)
        return Source(image, noise, None, image)
    noise = jnp.asarray(np.stack([each[1] for each in draws]))
    if how == FILL:
        if where is None:
            raise ValueError("mask: must be set for a Fill model")
        hidden = latents_of(pixels * (1 - where), 2)
        seen = jnp.repeat(jnp.asarray(_mask_of_fill(where, sizes)), size, axis=0)
        return Source(hidden, noise, None, jnp.concatenate((hidden, seen), axis=-1))
    mask = None if where is None else jnp.asarray(_mask(where, sizes))
    return Source(latents_of(pixels, 0), noise, mask, None)


def pixels_of(batch: Batch, edit: Edit) -> tuple[np.ndarray, np.ndarray | None]:
    """Return an image from -1 to 1 and its mask of 0 and 1, each as image, channel, row, column."""

    def array(text: str, channels: int) -> np.ndarray:
        flat = np.frombuffer(base64.b64decode(text), np.uint8)
        sides = flat.reshape(batch.height, batch.width, channels)
        return sides.transpose(2, 0, 1)[None].astype(np.float32) / np.float32(255)

    pixels = array(edit.image, 3) * np.float32(2) - np.float32(1)
    return pixels, array(edit.mask, 1) if edit.mask else None


def _mask(where: np.ndarray, sizes: Geometry) -> np.ndarray:
    """Return a mask for latents: the pixel at the corner of each counts."""
    corners = where[:, :, :: sizes.scale, :: sizes.scale]
    return packed(np.repeat(corners, sizes.latent_channels, axis=1))


def _mask_of_fill(where: np.ndarray, sizes: Geometry) -> np.ndarray:
    """Return a mask in which every pixel of a latent is a channel of its own."""
    _, _, height, width = where.shape
    scale = sizes.scale
    parts = where.reshape(1, height // scale, scale, width // scale, scale)
    turned = parts.transpose(0, 2, 4, 1, 3)
    return packed(turned.reshape(1, scale * scale, height // scale, width // scale))


def _draws(seed: int, sizes: Geometry, height: int, width: int) -> Sequence[np.ndarray]:
    """Return what diffusers draws for an edit, in order, as vectors of patches."""
    generator = torch.Generator().manual_seed(seed)
    sides = sizes.latent_channels, height // sizes.scale, width // sizes.scale
    return [packed(torch.randn((1, *sides), generator=generator).numpy())[0] for _ in range(3)]
