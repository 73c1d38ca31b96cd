"""The names of compiled programs, and the records that families of models share."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Key:
    """Key of a program: its stage and what it is compiled for."""

    stage: str
    """Stage: a text encoder, `encode` for an image, `step` or `decode`."""
    batch: int
    height: int = 0
    width: int = 0
    rank: int = 0
    """Rank of the adapter; 0 for none."""
    reuses: bool = False
    """Whether a step may reuse blocks of an earlier step."""
    frames: int = 0
    """Frames of a video; 0 for an image, and where the program is the same for any number."""

    @property
    def name(self) -> str:
        """Name for files and logs."""
        size = f"-{self.width}x{self.height}" if self.height else ""
        frames = f"x{self.frames}" if self.frames else ""
        rank = f"-r{self.rank}" if self.rank else ""
        kind = f"{self.stage}-b{self.batch}{size}{frames}{rank}"
        return kind + ("-reuses" if self.reuses else "")


CLIP_TOKENS = 77


@dataclass(frozen=True)
class Encoder:
    """A text encoder of a model."""

    stage: str
    tokenizer: str
    """Folder of its tokenizer."""
    tokens: int
    """Tokens of a prompt."""


@dataclass(frozen=True)
class Moment:
    """One denoising step."""

    at: float
    """What the denoiser gets: a noise level, or a step of the training."""
    now: float
    """Noise level before the step."""
    then: float
    """Noise level to which the step follows the prediction."""
    added: float = 0.0
    """Noise that is added after the step."""


@dataclass(frozen=True)
class Schedule:
    """The denoising steps of an image."""

    moments: tuple[Moment, ...]
    start: float = 1.0
    """Factor of the initial noise."""
