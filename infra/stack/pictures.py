"""Pictures: what a model that draws offers its clients."""

from typing import Annotated

from pydantic import Field

from infra.stack.base.fields import StackModel

PictureSize = Annotated[str, Field(pattern=r"^[1-9][0-9]{1,3}x[1-9][0-9]{1,3}$")]


class Pictures(StackModel):
    """What may be drawn, and how much may wait; each size is a program that is compiled."""

    sizes: tuple[PictureSize, ...] = Field(default=("1024x1024",), min_length=1, max_length=8)
    """Width and height in pixels, multiples of 16; the first is the default."""
    steps: int | None = Field(default=None, ge=1, le=100)
    """Denoising steps where a request does not say; by default 4 or 28, as the model is distilled
    or not."""
    queue: int = Field(default=64, ge=1, le=10_000)
    """Pictures that may wait for one replica; more are refused with 429."""
