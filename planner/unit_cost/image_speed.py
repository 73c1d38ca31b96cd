"""Durations of the stages of an image or video: encoding the prompt, denoising steps, decoding.

The published time of an image (data/images.yaml) includes steps and decoding. The time of the
other stages is assumed there. A denoising step is compute-bound even for one image, so time is
proportional to images and to the work of each (`planner.choice.image_plan.work`).
"""

from dataclasses import dataclass

from gke_inference.sizing.architectures import Architecture, find
from planner.choice.image_plan import measured, seconds_of, work
from planner.fit.tables import table

REFERENCE_PIXELS = 1024 * 1024
_FLUX, _WAN = "flux", "wan"


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
    accelerator: str,
    *,
    pixels: int,
    frames: int = 1,
    images: int = 1,
    model: Architecture | None = None,
) -> StageSeconds:
    """Return the stage durations of a batch on one chip.

    Args:
        accelerator: Accelerator, as the user names it.
        pixels: Pixels per image, or per frame.
        frames: Frames of a video; 1 for an image.
        images: Images or videos in the batch, all of one prompt.
        model: Model; None, or one that the image server cannot run, counts as FLUX.1 schnell, or as
            Wan 2.1 for videos.

    Raises:
        ValueError: No time of the accelerator is known.
    """
    pipeline = (model and model.pipeline) or (_FLUX if frames == 1 else _WAN)
    stages = [each for each in table("images")["stages"] if each["pipeline"] == pipeline]
    own = next((each for each in stages if each["accelerator"] == accelerator), None)
    if own is None:
        known = ", ".join(sorted(each["accelerator"] for each in stages))
        raise ValueError(f"accelerator: must be one of {known}, got {accelerator!r}")
    reference = find(own["model"])
    if reference is None:
        raise ValueError(f"stages: must be of a known model, got {own['model']!r}")
    row = measured(own["model"], accelerator)
    steps = reference.steps if row is None else row["steps"]
    text, decode = own["text_encode"], own["vae_decode"]
    step = (seconds_of(reference, accelerator, steps)[0] - text - decode) / steps
    passes = model.passes / reference.passes if model is not None else 1
    width, height, count = reference.output
    return StageSeconds(
        denoise_step=step * passes * work(reference, pixels, frames) * images,
        text_encode=text,
        vae_decode=decode * pixels * frames / (width * height * count) * images,
    )
