"""How many tokens of a prompt an image takes."""

import math

from gke_inference.sizing.shapes import ModelShape

_FLATTEST = 200
"""Largest ratio of the sides that the image processors of Qwen accept."""
_MARKERS = 2
"""Tokens before and after the tokens of an image."""


def has_known_images(shape: ModelShape) -> bool:
    """Return whether the tokens of an image are known for a model."""
    return bool(shape.image_tokens or shape.image_pixels)


def tokens_of_image(shape: ModelShape, width: int, height: int) -> int:
    """Return the number of tokens of an image.

    Source: the image processors in transformers; `smart_resize` of Qwen2-VL scales an image so
    that its sides are multiples of a token's side and its size is within bounds.

    Args:
        shape: model that accepts images, see `has_known_images`.
        width: in pixels.
        height: in pixels.

    Raises:
        ValueError: the image is too flat, or the model's tokens are not known.
    """
    if shape.image_tokens:
        return shape.image_tokens
    if not shape.image_pixels:
        raise ValueError("must be a model whose tokens of an image are known")
    if max(width, height) / min(width, height) > _FLATTEST:
        ratio = max(width, height) / min(width, height)
        raise ValueError(f"absolute aspect ratio must be smaller than {_FLATTEST}, got {ratio}")
    side, fewest, most = shape.image_pixels
    columns, rows = round(width / side), round(height / side)
    if columns * rows * side * side > most:
        scale = math.sqrt(width * height / most)
        columns = max(1, math.floor(width / scale / side))
        rows = max(1, math.floor(height / scale / side))
    elif columns * rows * side * side < fewest:
        scale = math.sqrt(fewest / (width * height))
        columns, rows = math.ceil(width * scale / side), math.ceil(height * scale / side)
    return columns * rows + _MARKERS
