"""Settings of a server: one JSON file, which the platform writes."""

import json
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

SAFE_STEPS = 100


@dataclass(frozen=True)
class Settings:
    """What is served and how."""

    model: str
    """Name that clients use."""
    folder: str
    """Of the weights, in diffusers' layout."""
    adapters: dict[str, str] = field(default_factory=dict[str, str])
    """LoRA adapters: the name that clients use in place of the model's, and their folder."""
    adapter_slots: int = 8
    """Adapters that a chip keeps; the one used longest ago goes."""
    pipeline: str = ".xla.flux:load"
    """What draws: `MODULE:FUNCTION`; a leading dot is this package."""
    workers: int = 1
    """Processes, one for each chip."""
    port: int = 8000
    host: str = "0.0.0.0"  # noqa: S104 - a pod's probes and the load balancer come from outside
    platform: str = "tpu"
    """`tpu` or `cpu`."""
    sizes: tuple[tuple[int, int], ...] = ((1024, 1024),)
    """Width and height of pictures, in pixels; each is a program, and the first the default."""
    steps: int = 0
    """Denoising steps where a request does not say; 0: 28, or 4 of a model without guidance."""
    guidance: float = 3.5
    """Guidance where a request does not say; models without it take none."""
    text_tokens: int = 512
    """Tokens of a prompt: 256 for schnell, 512 for dev."""
    text_encoder_bits: int = 16
    """Of the long text encoder's weights: 16, or 8, with which all of FLUX.1 fits a v6e."""
    max_batch: int = 4
    """Most pictures that a chip draws together."""
    max_candidates: int = 8
    """Most pictures of one request."""
    queue_limit: int = 64
    """Pictures that may wait; a request that would make it more is refused with 429."""
    timeout_seconds: float = 300.0
    """Longest that a request may take, waiting included."""
    drain_seconds: float = 300.0
    """Longest that pictures are finished after SIGTERM."""
    cache_folder: str = ""
    """Where XLA keeps what it compiles; empty: nowhere."""
    programs_folder: str = ""
    """Programs that were compiled ahead of time, by `python -m diffusion compile`."""
    start_seconds: float = 1800.0
    """Longest that a worker may take to load and compile."""

    def __post_init__(self) -> None:
        """Refuse what cannot work.

        Raises:
            ValueError: the message has field, rule and value.
        """
        low = {"workers": 1, "max_batch": 1, "max_candidates": 1, "queue_limit": 1, "steps": 0}
        for name, least in low.items():
            if getattr(self, name) < least:
                raise ValueError(f"{name}: must be at least {least}, got {getattr(self, name)}")
        if self.platform not in ("cpu", "tpu"):
            raise ValueError(f"platform: must be cpu or tpu, got {self.platform!r}")
        if self.text_encoder_bits not in (8, 16):
            bits = self.text_encoder_bits
            raise ValueError(f"text_encoder_bits: must be 8 or 16, got {bits}")
        if not self.sizes:
            raise ValueError("sizes: must have at least one, got none")
        if self.adapters and self.adapter_slots < 1:
            raise ValueError(f"adapter_slots: must be at least 1, got {self.adapter_slots}")
        if self.model in self.adapters:
            raise ValueError(f"adapters: must not have the model's name, got {self.model!r}")

    @property
    def batches(self) -> tuple[int, ...]:
        """The batches that programs are compiled for: powers of two, and the largest."""
        powers = [2**n for n in range(self.max_batch.bit_length()) if 2**n < self.max_batch]
        return (*powers, self.max_batch)

    def padded(self, count: int) -> int:
        """Return the smallest compiled batch that holds so many pictures."""
        return next(batch for batch in self.batches if batch >= count)

    @property
    def smallest(self) -> tuple[int, int]:
        """Height and width of the first size: enough where any size will do."""
        width, height = self.sizes[0]
        return height, width

    @cached_property
    def default_steps(self) -> int:
        """Return the steps where a request does not say.

        A model that takes no guidance was distilled to a few steps: FLUX.1 schnell wants 4, dev 28
        (the model cards).
        """
        if self.steps:
            return self.steps
        file = Path(self.folder, "transformer", "config.json")
        has_guidance = file.exists() and json.loads(file.read_text()).get("guidance_embeds")
        return 28 if has_guidance else 4


FLAGS: dict[str, type] = {
    entry.name: kind
    for entry in fields(Settings)
    for kind in (str, int, float)
    if entry.type in (kind, kind.__name__)
}
"""Settings that are plain values, which the command line takes, too."""


def read(file: Path) -> Settings:
    """Return the settings of a file.

    Raises:
        ValueError: it is not JSON, or has a key or a value that cannot be.
    """
    given: Any = json.loads(file.read_text())
    return from_dict(given)


def from_dict(given: dict[str, Any]) -> Settings:
    """Return settings out of plain JSON.

    Raises:
        ValueError: a key or a value cannot be.
    """
    known = {entry.name for entry in fields(Settings)}
    if unknown := sorted(set(given) - known):
        raise ValueError(f"{unknown[0]}: no such setting")
    for required in ("model", "folder"):
        if not given.get(required):
            raise ValueError(f"{required}: must be set, got nothing")
    sizes = given.get("sizes")
    if sizes is not None:
        given = {**given, "sizes": tuple(parsed_size(size) for size in sizes)}
    return Settings(**given)


def parsed_size(text: str) -> tuple[int, int]:
    """Return width and height of `WIDTHxHEIGHT`.

    Raises:
        ValueError: it is something else.
    """
    width, cross, height = text.partition("x")
    if not cross or not width.isdigit() or not height.isdigit():
        raise ValueError(f"sizes: must be WIDTHxHEIGHT, got {text!r}")
    return int(width), int(height)
