"""What the configuration files in a model's folder say about it, before anything is loaded."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FLUX = "FLUX.1"
SDXL = "Stable Diffusion XL"
WAN = "Wan 2.1"


@dataclass(frozen=True)
class Family:
    """A model family and its request defaults."""

    name: str
    """`FLUX`, `SDXL` or `WAN`."""
    steps: int
    guidance: float

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
        return Family(FLUX, 28 if denoiser.get("guidance_embeds") else 4, 3.5)
    schedule = _read(Path(folder, "scheduler", "scheduler_config.json"))
    if schedule.get("timestep_spacing") == "trailing":
        return Family(SDXL, 4, 0.0)
    return Family(SDXL, 20, 5.0)


def _read(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text()) if file.exists() else {}
