"""Finds photos of a set that look the same: the same file, or a scaled or re-encoded copy of it."""

import io
import warnings
from collections.abc import Sequence

import imagehash
from PIL import Image, ImageOps

MOST_PIXELS = 50_000_000
"""Maximum size of a photo, checked before it is decoded: up to 190 MiB in memory."""
_SAME_BITS = 4
"""Bits of 64 in which the hashes of two photos that look the same may differ (assumed). Different
scenes of the tests differ in 20 or more. A copy of an image with few colors and no detail can
differ in more than four, and then counts as another photo."""
_FORMATS = ("JPEG", "PNG", "WEBP")
_SIDES = (256, 256)


def perceptual_hash(content: bytes) -> imagehash.ImageHash:
    """Return the perceptual hash of a photo, seen upright: the signs of 64 low frequencies (pHash).

    Raises:
        ValueError: The photo cannot be read, or is too large.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(content), formats=_FORMATS) as image:
                pixels = image.width * image.height
                if pixels > MOST_PIXELS:
                    raise ValueError(f"must have at most {MOST_PIXELS} pixels, got {pixels}")
                image.thumbnail(_SIDES)  # a JPEG is decoded at a fraction of its size
                return imagehash.phash(ImageOps.exif_transpose(image))
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:
        name = type(error).__name__
        raise ValueError(f"must be an image that can be read, got {name}") from None


def copies(hashes: Sequence[imagehash.ImageHash]) -> dict[int, int]:
    """Return the first photo that each photo looks like, by its number; originals are left out."""
    found: dict[int, int] = {}
    for at, each in enumerate(hashes):
        for first in range(at):
            if first not in found and each - hashes[first] <= _SAME_BITS:
                found[at] = first
                break
    return found
