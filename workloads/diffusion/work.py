"""What a server asks of a pipeline, whatever draws the pictures."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

STAGES = ("text_encode", "denoise_step", "vae_decode", "image_encode")
Stopwatch = Callable[[str], AbstractContextManager[None]]
"""Takes a stage; what it gives back measures as long as it is open."""


@dataclass(frozen=True)
class Batch:
    """Pictures that are drawn together: one size, one number of steps, one adapter."""

    prompts: tuple[str, ...]
    """A prompt for each picture."""
    seeds: tuple[int, ...]
    height: int
    width: int
    steps: int
    guidance: float
    adapter: str | None
    format: str
    """`png` or `jpeg`."""


class Pipeline(Protocol):
    """Draws pictures on one chip."""

    def warm(self, say: Callable[[str], None]) -> None:
        """Get ready for every size and batch; tell what is going on."""
        ...

    def facts(self) -> dict[str, Any]:
        """Return what is worth a line of the log once it is ready."""
        ...

    def generate(
        self, batch: Batch, is_cancelled: Callable[[], bool], clock: Stopwatch
    ) -> list[bytes] | None:
        """Return a file for each seed, or None where `is_cancelled` said so on the way.

        Raises:
            ValueError: the batch cannot be drawn, such as with an adapter that does not fit.
        """
        ...
