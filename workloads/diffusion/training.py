"""Settings of a training run: a LoRA adapter fitted to a folder of images."""

import hashlib
import json
import math
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, cast

from workloads.common.settings import check_kind

from .adapters import NAME
from .config import RANKS, parsed_size

IMAGES = (".jpeg", ".jpg", ".png", ".webp")
_PATCH_PIXELS = 16
"""Sides must be a multiple of it: a latent is eight pixels, and a patch two latents."""
MOST_TEXT_TOKENS = 512


@dataclass(frozen=True)
class Training:
    """Settings of a training run."""

    folder: str
    """Folder of the model's weights, in diffusers' layout."""
    images: str
    """Folder of the training images; every file with an image suffix counts."""
    prompt: str
    """Description of the images, with the word that the adapter learns, such as `a photo of sks
    dog`."""
    adapter: str
    """Folder for the adapter; its last part is the name for requests."""
    work: str
    """Folder of the checkpoint and the progress, which outlives the process."""
    batch: int = 1
    """Images per step."""
    checkpoint_steps: int = 50
    """Steps between two checkpoints: if the process ends, at most this many are lost."""
    guidance: float = 3.5
    """Guidance scale of the model, if it has an input for it."""
    learning_rate: float = 1e-4
    platform: str = "tpu"
    """Platform: `tpu` or `cpu`."""
    rank: int = 16
    """Rank of the adapter."""
    seed: int = 0
    size: str = "1024x1024"
    """Width and height to which images are cropped and scaled."""
    steps: int = 500
    text_encoder_bits: int = 16
    """Bits of the long text encoder's weights: 16, or 8 as on a server with a v6e."""
    text_tokens: int = 512
    """Maximum tokens of the prompt, as on the server."""

    def __post_init__(self) -> None:
        """Reject invalid settings.

        Raises:
            ValueError: The message has field, rule and value.
        """
        self._check_kinds()
        for name in ("batch", "checkpoint_steps", "steps"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: must be at least 1, got {getattr(self, name)}")
        if self.rank not in RANKS:
            known = ", ".join(map(str, RANKS))
            raise ValueError(f"rank: must be one of {known}, got {self.rank}")
        if not 0 < self.learning_rate < 1:
            rule = "must be above 0 and below 1"
            raise ValueError(f"learning_rate: {rule}, got {self.learning_rate:g}")
        if self.platform not in ("cpu", "tpu"):
            raise ValueError(f"platform: must be cpu or tpu, got {self.platform!r}")
        if self.text_encoder_bits not in (8, 16):
            bits = self.text_encoder_bits
            raise ValueError(f"text_encoder_bits: must be 8 or 16, got {bits}")
        if not self.prompt.strip():
            raise ValueError("prompt: must be a non-empty string")
        if not 1 <= self.text_tokens <= MOST_TEXT_TOKENS:
            rule = f"must be from 1 to {MOST_TEXT_TOKENS}"
            raise ValueError(f"text_tokens: {rule}, got {self.text_tokens}")
        if not 0 <= self.guidance < math.inf:
            raise ValueError(f"guidance: must be at least 0, got {self.guidance:g}")
        if not all(side and side % _PATCH_PIXELS == 0 for side in self.sides):
            rule = f"must be multiples of {_PATCH_PIXELS}, from {_PATCH_PIXELS}"
            raise ValueError(f"size: {rule}, got {self.size}")
        if not NAME.fullmatch(Path(self.adapter).name):
            rule = (
                "must end with a name of at most 40 lower-case letters, digits, dots, hyphens and "
                "underscores, with a letter or digit at both ends"
            )
            raise ValueError(f"adapter: {rule}, got {self.adapter!r}")

    def _check_kinds(self) -> None:
        """Reject a value of the wrong type.

        Raises:
            ValueError: The message has field, rule and value.
        """
        for entry in fields(self):
            check_kind(entry.name, entry.type, getattr(self, entry.name))

    @property
    def sides(self) -> tuple[int, int]:
        """Height and width of the images."""
        width, height = parsed_size(self.size, "size")
        return height, width

    def files(self) -> list[Path]:
        """Return the images, by name.

        Raises:
            ValueError: There are no images.
        """
        folder = Path(self.images)
        found = sorted(file for file in folder.glob("*") if file.suffix.lower() in IMAGES)
        if not found:
            raise ValueError(f"images: must have an image in {', '.join(IMAGES)}, got {folder}")
        return found

    def digest(self) -> str:
        """Return the digest of the settings and images that a checkpoint belongs to."""
        kept = {name: value for name, value in asdict(self).items() if name not in _PLACES}
        told = hashlib.sha256(json.dumps(kept, sort_keys=True).encode())
        for file in self.files():
            told.update(hashlib.sha256(file.read_bytes()).digest())
        return told.hexdigest()


_PLACES = ("adapter", "checkpoint_steps", "images", "platform", "work")
"""Settings that do not affect the adapter's numbers."""


def read(file: Path) -> Training:
    """Return the settings of a JSON file.

    Raises:
        ValueError: The file is not JSON, or has an invalid key or value.
    """
    found: Any = json.loads(file.read_text())
    if not isinstance(found, dict):
        raise ValueError(f"{file}: must be a JSON object, got {found!r}")
    given = cast("dict[str, Any]", found)
    known = [entry.name for entry in fields(Training)]
    if unknown := sorted(set(given) - set(known)):
        raise ValueError(f"{unknown[0]}: no such setting")
    for required in known[:5]:
        if not given.get(required):
            raise ValueError(f"{required}: must be set, got nothing")
    return Training(**given)
