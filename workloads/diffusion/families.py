"""What the configuration files in a model's folder say about it, before anything is loaded."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FLUX = "FLUX.1"
IMAGE_TO_IMAGE, FILL, KONTEXT = "image-to-image", "fill", "kontext"
"""How a model changes an image: `FluxImg2ImgPipeline` and `FluxInpaintPipeline` of diffusers, which
start from the noised image; `FluxFillPipeline`; and `FluxKontextPipeline`."""
SDXL = "Stable Diffusion XL"
WAN = "Wan 2.1"


@dataclass(frozen=True)
class Family:
    """A model family and its request defaults."""

    name: str
    """`FLUX`, `SDXL` or `WAN`."""
    steps: int
    guidance: float
    edits: str = ""
    """How its models change an image that a client sends: `IMAGE_TO_IMAGE`, `FILL` or `KONTEXT`;
    empty if they cannot."""

    @property
    def is_video(self) -> bool:
        """Return whether its models generate videos, not images."""
        return self.name == WAN

    @property
    def pipeline(self) -> str:
        """Return its pipeline as `MODULE:FUNCTION`, relative to this package."""
        return ".xla.video.pipeline:load" if self.is_video else ".xla.pipeline:load"


def family_of(folder: str) -> Family:
    """Return the family of the model in a folder; without its files, that of FLUX.1 schnell.

    Steps are those of the model cards: FLUX.1 schnell and distilled models of Stable Diffusion XL
    need 4, FLUX.1 dev 28. Stable Diffusion XL has 20, as in MLPerf. Its distilled models are those
    with a `trailing` schedule, as the cards of SDXL-Turbo and SDXL-Lightning have it (assumed of
    others); they have no guidance. Wan 2.1 has steps and guidance of diffusers' WanPipeline.
    """
    if not Path(folder, "unet", "config.json").exists():
        denoiser = _read(Path(folder, "transformer", "config.json"))
        if denoiser.get("_class_name") == "WanTransformer3DModel":
            return Family(WAN, 50, 5.0)
        return _flux(folder, is_guided=bool(denoiser.get("guidance_embeds")))
    schedule = _read(Path(folder, "scheduler", "scheduler_config.json"))
    if schedule.get("timestep_spacing") == "trailing":
        return Family(SDXL, 4, 0.0)
    return Family(SDXL, 20, 5.0)


def _flux(folder: str, *, is_guided: bool) -> Family:
    """Return the family of a FLUX.1 model; `model_index.json` names its pipeline.

    Steps and guidance of FLUX.1 Fill and Kontext are those of their model cards.
    """
    match _read(Path(folder, "model_index.json")).get("_class_name"):
        case "FluxFillPipeline":
            return Family(FLUX, 50, 30.0, FILL)
        case "FluxKontextPipeline":
            return Family(FLUX, 28, 2.5, KONTEXT)
        case _:
            return Family(FLUX, 28 if is_guided else 4, 3.5, IMAGE_TO_IMAGE)


def _read(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text()) if file.exists() else {}
