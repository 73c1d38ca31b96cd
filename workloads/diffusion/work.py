"""Interface between a server and a pipeline."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from .adapters import Weighted

STAGES = (
    "text_encode",
    "vae_encode",
    "denoise_step",
    "reused_step",
    "preview",
    "vae_decode",
    "image_encode",
    "video_encode",
)
"""A `reused_step` is a denoising step that computed only the first block. A `preview` decodes
images that are not finished; their files are written while the next step runs. A video is decoded
in parts, and `video_encode` is what its file takes after the last one."""


@dataclass
class Lap:
    """Measured work; the stage may be known only at its end."""

    stage: str


Show = Callable[[int, list[bytes]], None]
"""Takes the index of a preview, from 0, and a file for each seed. Any thread may call it."""

Stopwatch = Callable[[str], AbstractContextManager[Lap]]
"""Takes a stage; the returned context manager measures while it is open."""


@dataclass(frozen=True)
class Edit:
    """An image to change. All images of a batch have the same one."""

    image: str
    """Its pixels in the size of the batch: rows of RGB with 8 bits, in base64."""
    strength: float
    """Share of the denoising steps that run, from above 0 to 1, which keeps nothing of it."""
    mask: str = ""
    """A byte for each pixel, in base64: 255 where it is edited, and 0; empty: everywhere."""


@dataclass(frozen=True)
class Batch:
    """What is generated together: one model, one size, one number of steps, the same adapters."""

    model: str
    """The model, not the adapter."""
    prompts: tuple[str, ...]
    """One prompt for each image."""
    seeds: tuple[int, ...]
    height: int
    width: int
    steps: int
    guidance: float
    adapters: tuple[Weighted, ...]
    """Adapters whose changes are added up; none for the model itself."""
    format: str
    """Format: `png` or `jpeg`, or `mp4` for a video."""
    previews: int = 0
    """Number of previews of each image before it is finished."""
    frames: int = 0
    """Frames of each video; 0 for images."""
    negative: str = ""
    """What guidance leads away from, for a video."""
    edit: Edit | None = None
    """The image to change; None to generate one."""

    @property
    def first_step(self) -> int:
        """Return the number of steps that are left out at the start, as diffusers counts them."""
        if self.edit is None:
            return 0
        return int(max(self.steps - min(self.steps * self.edit.strength, self.steps), 0))

    @property
    def run_steps(self) -> int:
        """Return the number of steps that run."""
        return self.steps - self.first_step

    @property
    def preview_steps(self) -> list[int]:
        """Return the numbers of steps, from 1, after which to show a preview.

        They are evenly spaced, and never the last step. A batch of few steps has fewer previews.
        """
        parts = self.previews + 1
        found = {self.run_steps * part // parts for part in range(1, parts)}
        return sorted(found - {0, self.run_steps})


class Pipeline(Protocol):
    """Generates images on one chip."""

    def warm(self, say: Callable[[str], None]) -> None:
        """Prepare every size and batch, and report progress."""
        ...

    def facts(self) -> dict[str, Any]:
        """Return facts to log once the pipeline is ready."""
        ...

    def forget(self, adapter: str) -> None:
        """Unload an adapter that was removed."""
        ...

    def generate(
        self, batch: Batch, is_cancelled: Callable[[], bool], clock: Stopwatch, show: Show
    ) -> list[bytes] | None:
        """Return a file for each seed, or None if `is_cancelled` became true.

        `show` is called with the previews, in order, before this returns.

        Raises:
            ValueError: The batch cannot be generated, for example because an adapter does not fit.
        """
        ...
