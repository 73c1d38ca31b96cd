"""Which pictures are drawn together, and on how many chips.

A picture is one candidate of a request. Nothing waits for a batch to fill: a chip that is idle gets
work at once, and batches form by themselves while all chips are busy. Candidates go to idle chips
first and share a chip only where there are more of them than idle chips, because of what each
stage costs (FLUX.1 at 1024 pixels, docs/diffusion.md): a denoising step is bound by arithmetic even
for one picture, so a batch of two takes twice as long and two chips take half; text encoding is
done again on each chip, which costs money but no time; the decoder runs where the latents are.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from .work import Batch


@dataclass(eq=False)
class Picture:
    """One candidate of a request, waiting or being drawn."""

    prompt: str
    seed: int
    height: int
    width: int
    steps: int
    guidance: float
    adapter: str | None
    format: str
    arrived: float
    """Monotonic time."""
    trace: str = ""
    done: Any = None
    """Future of the file."""
    is_cancelled: bool = False
    tags: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def kind(self) -> tuple[Any, ...]:
        """What must be the same in one batch."""
        return (
            self.height,
            self.width,
            self.steps,
            self.guidance,
            self.adapter,
            self.format,
        )


class Queue:
    """The pictures that wait, oldest first."""

    def __init__(self) -> None:
        self._waiting: deque[Picture] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, pictures: Iterable[Picture]) -> None:
        """Put pictures at the end."""
        self._waiting.extend(pictures)

    def remove(self, picture: Picture) -> None:
        """Take a picture out that nobody wants any more, if it still waits."""
        if picture in self._waiting:
            self._waiting.remove(picture)

    def take(self, idle: int, most: int) -> list[Picture]:
        """Return the next batch for one of `idle` chips: the oldest picture and its likes.

        Its likes are shared out over the idle chips; at most `most` are in a batch.
        """
        if not self._waiting:
            return []
        kind = self._waiting[0].kind
        alike = [picture for picture in self._waiting if picture.kind == kind]
        share = min(most, -(-len(alike) // max(1, idle)))
        taken = alike[:share]
        for picture in taken:
            self._waiting.remove(picture)
        return taken

    def drop_all(self) -> list[Picture]:
        """Return everything that waits, and wait for nothing."""
        dropped = list(self._waiting)
        self._waiting.clear()
        return dropped


def batch_of(pictures: list[Picture]) -> Batch:
    """Return what a chip is told to draw."""
    first = pictures[0]
    return Batch(
        adapter=first.adapter,
        format=first.format,
        guidance=first.guidance,
        height=first.height,
        prompts=tuple(picture.prompt for picture in pictures),
        seeds=tuple(picture.seed for picture in pictures),
        steps=first.steps,
        width=first.width,
    )
