"""Durations of the stages of an image: encoding the prompt, denoising steps, decoding.

The published time of an image (data/pictures.yaml) includes steps and decoding. The time of the
other stages is assumed there. A denoising step is compute-bound even for one image, so time is
proportional to images and nearly to pixels. (Attention grows faster; it is a sixth of the work at
this size, and its extra growth is ignored.)
"""

from dataclasses import dataclass

from gke_inference.sizing.architectures import Architecture, find
from planner.choice.image_plan import measured
from planner.fit.tables import table

REFERENCE_PIXELS = 1024 * 1024
_FLUX = "flux"


@dataclass(frozen=True)
class StageSeconds:
    """Seconds of one pass of a batch through each stage, on one chip."""

    text_encode: float
    denoise_step: float
    vae_decode: float

    def request(self, steps: int) -> float:
        """Return the duration of a whole batch in seconds."""
        return self.text_encode + steps * self.denoise_step + self.vae_decode


def stage_seconds(
    accelerator: str, *, pixels: int, pictures: int = 1, model: Architecture | None = None
) -> StageSeconds:
    """Return the stage durations of a batch on one chip.

    Args:
        accelerator: Accelerator, as the user names it.
        pixels: Pixels per image.
        pictures: Images in the batch, all of one prompt.
        model: Model; None, or one that the image server cannot run, counts as FLUX.1 schnell.

    Raises:
        ValueError: No measurement is published for the accelerator.
    """
    pipeline = (model and model.pipeline) or _FLUX
    stages = [each for each in table("pictures")["stages"] if each["pipeline"] == pipeline]
    own = next((each for each in stages if each["accelerator"] == accelerator), None)
    if own is None:
        known = ", ".join(sorted(each["accelerator"] for each in stages))
        raise ValueError(f"accelerator: must be one of {known}, got {accelerator!r}")
    row = measured(own["model"], accelerator)
    reference = find(own["model"])
    if row is None or reference is None:
        raise ValueError(f"stages: must be of a measured model, got {own['model']!r}")
    size = pictures * pixels / REFERENCE_PIXELS
    text, decode = own["text_encode"], own["vae_decode"]
    published = 1 / row["per_second"] + row.get("left_out_seconds", 0.0)
    step = (published - text - decode) / row["steps"]
    passes = model.passes / reference.passes if model is not None else 1
    return StageSeconds(
        denoise_step=step * passes * size,
        text_encode=text,
        vae_decode=decode * size,
    )
