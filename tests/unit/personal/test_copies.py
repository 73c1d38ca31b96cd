"""Which photos look the same."""

import io
import struct
import zlib
from typing import Any

import numpy as np
import pytest
from imagehash import ImageHash
from PIL import Image

from tests.diffusion.personal.pictures import pictures
from tests.unit.personal.world import PNG, photo
from workloads.personal.copies import MOST_PIXELS, copies, perceptual_hash


def scene(seed: int) -> Image.Image:
    """Return a picture of large smooth shapes, another one for each seed."""
    coarse = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), np.uint8)
    return Image.fromarray(coarse).resize((640, 480), Image.Resampling.BICUBIC)


def written(image: Image.Image, form: str = "PNG", **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, form, **options)
    return out.getvalue()


def test_a_copy_that_was_scaled_encoded_again_or_turned_looks_like_its_original() -> None:
    photos = [scene(seed) for seed in range(6)]
    turned = Image.Exif()
    turned[0x0112] = 6  # is shown rotated by 90 degrees
    sideways = photos[3].transpose(Image.Transpose.ROTATE_90)
    files = [
        *(written(each) for each in photos),
        written(photos[1]),
        written(photos[2].resize((320, 240)), "JPEG", quality=50),
        written(sideways, "JPEG", exif=turned),
        written(photos[2], "WEBP", quality=60),
    ]
    assert copies([perceptual_hash(file) for file in files]) == {6: 1, 7: 2, 8: 3, 9: 2}


def test_hashes_of_copies_may_differ_in_four_bits() -> None:
    original = perceptual_hash(written(scene(0)))

    def changed(bits: int) -> ImageHash:
        signs = original.hash.copy()
        signs.flat[:bits] ^= True
        return ImageHash(signs)

    assert copies([original, changed(4)]) == {1: 0}
    assert copies([original, changed(5)]) == {}


def test_pictures_of_one_subject_are_no_copies() -> None:
    assert copies([perceptual_hash(file) for file in pictures()]) == {}
    assert copies([perceptual_hash(photo(at)) for at in range(4)]) == {}


def bomb() -> bytes:
    """Return a PNG file whose header has more pixels than are decoded."""
    found, side = bytearray(PNG), int(MOST_PIXELS**0.5) + 1
    found[16:24] = struct.pack(">II", side, side)
    found[29:33] = struct.pack(">I", zlib.crc32(found[12:29]))
    return bytes(found)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "must be an image that can be read, got UnidentifiedImageError"),
        (PNG[:60], "must be an image that can be read, got "),
        (bomb(), "must have at most 50000000 pixels, got 50013184"),
    ],
)
def test_what_cannot_be_decoded_is_refused(content: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        perceptual_hash(content)
