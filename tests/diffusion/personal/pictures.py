"""Pictures of a user."""

import io

import numpy as np
from PIL import Image


def pictures() -> list[bytes]:
    """Return three pictures of a user."""
    found: list[bytes] = []
    for number in range(3):
        pixels = np.full((48, 48, 3), (220 - 10 * number, 40, 40), np.uint8)
        pixels[16 * number : 16 * number + 12, 5 + 9 * number : 25 + 9 * number] = (20, 20, 200)
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "PNG")
        found.append(file.getvalue())
    return found
