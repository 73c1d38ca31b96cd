"""The placeholder of an edit shows the client's image."""

import base64
import io

from PIL import Image

from simulator.diffusion import simulated
from workloads.diffusion.work import Batch, Edit

SIZE = (64, 32)


def drawn(strength: float, mask: str = "") -> Image.Image:
    """Return the placeholder of an edit of a red image."""
    red = base64.b64encode(bytes((255, 0, 0)) * SIZE[0] * SIZE[1]).decode()
    batch = Batch(
        adapters=(),
        edit=Edit(red, strength, mask),
        format="png",
        guidance=0,
        height=SIZE[1],
        model="flux",
        prompts=("x",),
        seeds=(7,),
        steps=4,
        width=SIZE[0],
    )
    return Image.open(io.BytesIO(simulated.drawn("x", 7, batch)))


def test_the_placeholder_is_nearer_to_the_image_the_smaller_the_strength() -> None:
    def distance(strength: float) -> int:
        pixel = drawn(strength).getpixel((60, 2))
        assert isinstance(pixel, tuple)
        red, green, blue = pixel
        return abs(255 - red) + green + blue

    assert distance(0.01) < 10 < distance(0.5) < distance(1)


def test_the_image_stays_outside_of_the_mask() -> None:
    right = bytes(255 if at % SIZE[0] >= 32 else 0 for at in range(SIZE[0] * SIZE[1]))
    image = drawn(1, base64.b64encode(right).decode())
    assert image.getpixel((10, 20)) == (255, 0, 0)
    assert image.getpixel((60, 2)) != (255, 0, 0)
