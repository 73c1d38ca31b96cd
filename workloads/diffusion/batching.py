"""Assignment of images to batches and chips.

An image is one candidate of a request. The queue does not wait for a batch to fill: an idle chip
gets work immediately, and batches form while all chips are busy. Candidates go to idle chips first.
They share a chip only if there are more candidates than idle chips, because of the cost of each
stage (FLUX.1 at 1024 pixels, docs/diffusion.md). A denoising step is compute-bound even for one
image, so a batch of two takes twice as long, and two chips take half. Each chip repeats the text
encoding, which costs chip time but adds no latency. The decoder runs where the latents are.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from .adapters import Weighted
from .work import Batch, Edit


@dataclass(eq=False)
class Picture:
    """One candidate of a request, or a video; queued or in progress."""

    model: str
    """The model, not the adapter."""
    prompt: str
    seed: int
    height: int
    width: int
    steps: int
    guidance: float
    adapters: tuple[Weighted, ...]
    format: str
    arrived: float
    """Monotonic time of arrival."""
    trace: str = ""
    done: Any = None
    """Future of the file."""
    is_cancelled: bool = False
    previews: int = 0
    """Number of previews to show before the file."""
    frames: int = 0
    """Same as `Batch.frames`."""
    negative: str = ""
    """Same as `Batch.negative`."""
    edit: Edit | None = None
    """Same as `Batch.edit`."""
    show: Callable[[int, str], None] | None = None
    """Called with the index of a preview and its file, in base64."""

    @property
    def kind(self) -> tuple[Any, ...]:
        """Values that all images of a batch share."""
        return (
            self.model,
            self.height,
            self.width,
            self.steps,
            self.guidance,
            self.adapters,
            self.format,
            self.previews,
            self.frames,
            self.negative,
            self.edit,
        )


class Queue:
    """Queued images, oldest first."""

    def __init__(self) -> None:
        self._waiting: deque[Picture] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, pictures: Iterable[Picture]) -> None:
        """Append images."""
        self._waiting.extend(pictures)

    def count(self, model: str) -> int:
        """Return the number of images of a model."""
        return sum(picture.model == model for picture in self._waiting)

    def adapters(self) -> set[str]:
        """Return the names of the adapters of waiting images."""
        return adapters_of(self._waiting)

    def remove(self, picture: Picture) -> None:
        """Remove a canceled image if it is still queued."""
        if picture in self._waiting:
            self._waiting.remove(picture)

    def take(self, idle: int, most: int) -> list[Picture]:
        """Return the next batch for one of `idle` chips: the oldest image and similar ones.

        Similar images are distributed over the idle chips; a batch has at most `most` images.
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
        """Return all queued images and empty the queue."""
        dropped = list(self._waiting)
        self._waiting.clear()
        return dropped


def adapters_of(pictures: Iterable[Picture]) -> set[str]:
    """Return the names of the adapters of images."""
    return {each.adapter.name for picture in pictures for each in picture.adapters}


def batch_of(pictures: list[Picture]) -> Batch:
    """Return the batch to send to a chip."""
    first = pictures[0]
    return Batch(
        adapters=first.adapters,
        edit=first.edit,
        format=first.format,
        frames=first.frames,
        guidance=first.guidance,
        height=first.height,
        model=first.model,
        negative=first.negative,
        previews=first.previews,
        prompts=tuple(picture.prompt for picture in pictures),
        seeds=tuple(picture.seed for picture in pictures),
        steps=first.steps,
        width=first.width,
    )
