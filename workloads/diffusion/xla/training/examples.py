"""Training data: images as latents, and the prompt as vectors.

Each encoder is on the device only while it is needed, because the denoiser needs the memory.
"""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from PIL import Image, ImageOps
from transformers import AutoTokenizer

from ...training import Training
from .. import modules
from ..keys import CLIP_TOKENS, Key
from ..modules import Weights
from ..programs import Programs, packed


def latents_of(settings: Training, programs: Programs) -> np.ndarray:
    """Return the images as the denoiser sees them without noise: image, patch, channel.

    Raises:
        ValueError: A file is not an image.
    """
    encoder = modules.image_encoder(programs.folder)
    weights = encoder.load(programs.dtype, lambda whole: whole)
    sizes = programs.geometry
    encode = jax.jit(encoder.__call__)
    found: list[np.ndarray] = []
    for file in settings.files():
        pixels = jnp.asarray(pixels_of(file, settings.sides)[None], programs.dtype)
        latents = np.asarray(encode(weights, pixels).astype(jnp.float32))
        found.append(packed((latents - sizes.shift_factor) * sizes.scaling_factor)[0])
    return np.stack(found)


def pixels_of(file: Path, sides: tuple[int, int]) -> np.ndarray:
    """Return an image, cropped in the middle and scaled: channel, row, column, from -1 to 1.

    Raises:
        ValueError: The file cannot be read.
    """
    height, width = sides
    try:
        with Image.open(file) as opened:
            upright = ImageOps.exif_transpose(opened).convert("RGB")
    except (OSError, Image.DecompressionBombError) as error:
        raise ValueError(f"images: {file.name} must be an image: {error}") from error
    fitted = ImageOps.fit(upright, (width, height), Image.Resampling.LANCZOS)
    return np.asarray(fitted, np.float32).transpose(2, 0, 1) / 127.5 - 1


def prompt_of(settings: Training, programs: Programs) -> tuple[Any, Any]:
    """Return T5's and CLIP's vectors of the prompt, for one image."""
    folder = programs.folder
    found: list[Any] = []
    for stage, words, length in (
        ("t5", "tokenizer_2", settings.text_tokens),
        ("clip", "tokenizer", CLIP_TOKENS),
    ):
        read: Any = AutoTokenizer.from_pretrained(folder / words)
        options = {"max_length": length, "padding": "max_length", "truncation": True}
        ids = np.asarray(read([settings.prompt], **options)["input_ids"], np.int32)
        weights: Weights = programs.load(stage)
        found.append(jax.jit(programs.function(Key(stage, 1)))(weights, ids))
    return found[0], found[1]
