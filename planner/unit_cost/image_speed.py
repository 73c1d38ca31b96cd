"""Durations of the stages of an image: encoding the prompt, denoising steps, decoding.

The published time of an image (data/pictures.yaml) includes steps and decoding. The time of the
other stages is assumed there. A denoising step is compute-bound even for one image, so time is
proportional to images and nearly to pixels. (Attention grows faster; it is a sixth of the work at
this size, and its extra growth is ignored.)
"""

from dataclasses import dataclass

from planner.choice.image_plan import measured
from planner.fit.tables import table

REFERENCE_PIXELS = 1024 * 1024


@dataclass(frozen=True)
class StageSeconds:
    """Seconds of one pass of a batch through each stage, on one chip."""

    text_encode: float
    denoise_step: float
    vae_decode: float

    def request(self, steps: int) -> float:
        """Return the duration of a whole batch in seconds."""
        return self.text_encode + steps * self.denoise_step + self.vae_decode


def stage_seconds(accelerator: str, *, pixels: int, pictures: int = 1) -> StageSeconds:
    """Return the stage durations of a batch on one chip.

    Args:
        accelerator: Accelerator, as the user names it.
        pixels: Pixels per image.
        pictures: Images in the batch, all of one prompt.

    Raises:
        ValueError: No measurement is published for the accelerator.
    """
    stages = table("pictures")["stages"]
    known = sorted(set(stages) - {"model"})
    row = measured(stages["model"], accelerator)
    if accelerator not in known or row is None:
        raise ValueError(f"accelerator: must be one of {', '.join(known)}, got {accelerator!r}")
    size = pictures * pixels / REFERENCE_PIXELS
    text, decode = (stages[accelerator][name] for name in ("text_encode", "vae_decode"))
    step = (1 / row["per_second"] - decode) / row["steps"]
    return StageSeconds(
        denoise_step=step * size,
        text_encode=text,
        vae_decode=decode * size,
    )
