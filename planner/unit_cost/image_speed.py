"""What the stages of a picture take: encoding the prompt, denoising steps, decoding.

The published time of a picture (data/pictures.yaml) holds steps and decoding; what the stages but
the steps take is assumed there. A denoising step is bound by arithmetic even for one picture, so
time goes with pictures and nearly with pixels (attention grows faster, a sixth of the work at this
size, which is left out).
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
        """Returns the seconds of a whole batch."""
        return self.text_encode + steps * self.denoise_step + self.vae_decode


def stage_seconds(accelerator: str, *, pixels: int, pictures: int = 1) -> StageSeconds:
    """Returns how long one chip takes for a batch.

    Args:
        accelerator: In the user's word.
        pixels: Of one picture.
        pictures: In the batch, of one prompt.

    Raises:
        ValueError: Nothing is published for the accelerator.
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
