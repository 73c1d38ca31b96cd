"""What the server needs of a family of image models: its programs, and its schedule's numbers."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ..config import Settings
from ..families import SDXL
from .keys import Encoder, Key, Moment, Schedule
from .lora import Changes
from .modules import Weights
from .programs import Programs
from .sdxl import SdxlPrograms


class Compilable(Protocol):
    """The programs of a model of images or videos."""

    folder: Path
    geometry: Any
    """Dimensions that programs depend on, besides the shapes of their arguments."""

    @property
    def encoders(self) -> tuple[Encoder, ...]:
        """Text encoders; each has a program, like `step` and `decode`."""
        ...

    def function(self, key: Key) -> Callable[..., Any]:
        """Return a program's function; its arguments are weights first, then arrays."""
        ...

    def shapes(self, key: Key, sharding: Any = None) -> tuple[Any, ...]:
        """Return the shapes of a program's arguments."""
        ...

    def load(self, stage: str) -> Weights:
        """Read the weights of a stage and copy them to this process's device."""
        ...


class Family(Compilable, Protocol):
    """The programs of a model of images."""

    def adapter(self, folder: Path) -> Changes:
        """Return the changes of an adapter's files.

        Raises:
            ValueError: It cannot be read, or changes more than the denoiser.
        """
        ...

    def low_rank(self, rank: int) -> Weights:
        """Return the shapes of the arrays of an adapter of a rank, by name."""
        ...

    def prompt(self, encoded: Sequence[Any]) -> tuple[Any, Any]:
        """Return vectors per token and per prompt from the outputs of the encoders."""
        ...

    def schedule(self, settings: Settings, steps: int, height: int, width: int) -> Schedule:
        """Return the denoising steps, as diffusers has them."""
        ...

    def numbers(self, moment: Moment, guidance: float) -> tuple[np.float32, ...]:
        """Return the numbers of a step's program, after the vectors of the prompt."""
        ...

    def noises(self, seed: int, height: int, width: int) -> Iterator[np.ndarray]:
        """Return the initial noise of an image and then that of its steps, as diffusers'."""
        ...


def programs_of(settings: Settings, dtype: Any, generation: str | None = None) -> Family:
    """Return the programs of a model.

    Args:
        settings: Settings of the model.
        dtype: Number format of the modules.
        generation: Generation of the target chip; None for this machine's.

    Raises:
        ValueError: The family has no programs for such a model.
    """
    folder = Path(settings.folder)
    if settings.family.name == SDXL:
        return SdxlPrograms(folder, dtype, generation, is_guided=settings.is_guided)
    return Programs(
        folder,
        dtype,
        settings.text_tokens,
        generation,
        edits=settings.family.edits,
        text_bits=settings.text_encoder_bits,
    )
