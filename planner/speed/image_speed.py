"""Time of an image or video on one chip, as a whole and by stage.

The time is the compute of the denoising steps at the fraction of peak that published images
reached on the same accelerator: with the same model if available, otherwise the median of other
models, with a wider interval. The same holds for videos. Time that a published figure excludes is
added (`left_out` in data/images.yaml).

The stages are encoding the prompt, denoising steps and decoding. The published time includes steps
and decoding; the time of encoding is assumed in data/images.yaml. A denoising step is
compute-bound even for one image, so its time is proportional to images and to the `work` of each.
"""

import math
from dataclasses import dataclass
from statistics import geometric_mean
from typing import Any

from gke_inference.catalogue.accelerators import accelerator as offered
from gke_inference.sizing.architectures import Architecture, find
from gke_inference.sizing.image_memory import video_tokens
from planner.fit.chips import accelerator
from planner.fit.tables import table

REFERENCE_PIXELS = 1024 * 1024
_FLUX, _WAN = "flux", "wan"
MEASURED_SPREAD = 1.15
"""Where the model was measured on the accelerator: between submissions of one round of MLPerf."""


def flops(model: Architecture, steps: int) -> float:
    """Return the operations for denoising one image or video of the size in `output`."""
    once = model.flops_per_step
    if not once:
        once = 2e9 * model.denoiser_billion * model.latent_tokens + _attention(model, 1.0)
    return once * model.passes * steps


def _attention(model: Architecture, share: float) -> float:
    """Return the operations of the attention of one pass, for a share of the tokens."""
    return 4 * model.layers * model.hidden * (share * model.latent_tokens) ** 2


def work(model: Architecture, pixels: int, frames: int = 1) -> float:
    """Return the work for an image or video, relative to that of the size in `output`.

    For images, it is proportional to pixels. (Attention grows faster; it is a sixth of the work of
    FLUX.1 at 1024x1024, and its extra growth is ignored.) For videos, whose attention is most of
    the work, that part grows with the square of the tokens.

    Args:
        model: Model.
        pixels: Pixels of the image, or of a frame.
        frames: Frames of a video.
    """
    width, height, count = model.output
    if not model.is_video:
        return pixels / (width * height)
    share = video_tokens(pixels, frames) / video_tokens(width * height, count)
    once = flops(model, 1) / model.passes
    attention = _attention(model, 1.0)
    return ((once - attention) * share + _attention(model, share)) / once


def reached(word: str, *, without: str = "", is_video: bool = False) -> list[float]:
    """Return the fractions of the bf16 peak that published results reached on an accelerator.

    Args:
        word: Accelerator, in the user's word; empty for any.
        without: Model whose own figures are excluded.
        is_video: Whether to return those of videos instead of those of images.
    """
    found: list[float] = []
    for row in table("images")["measured"]:
        model = find(row["model"])
        if model is None or row["model"] == without or model.is_video is not is_video:
            continue
        if word and row["accelerator"] != word:
            continue
        peak = accelerator(offered(row["accelerator"]).gke_type).bf16_tflops * 1e12
        found.append(flops(model, row["steps"]) * row["per_second"] / peak)
    return found


def spread() -> float:
    """Return the factor that contains the fractions of peak of four in five accelerators."""
    every = sorted(abs(math.log(part / geometric_mean(reached("")))) for part in reached(""))
    return math.exp(every[int(0.8 * (len(every) - 1))])


def measured(model: str, word: str) -> dict[str, Any] | None:
    """Return the published results of a model on an accelerator; None if there are none."""
    rows: list[dict[str, Any]] = table("images")["measured"]
    return next((r for r in rows if r["model"] == model and r["accelerator"] == word), None)


def seconds_of(model: Architecture, word: str, steps: int) -> tuple[float, float, str]:
    """Return the seconds for one image or video, the uncertainty factor, and the source.

    The size is that in `output`, and one chip generates it.
    """
    row = measured(model.name, word)
    if row is not None:
        seconds = steps / row["steps"] / row["per_second"] + row.get("left_out_seconds", 0.0)
        return seconds, MEASURED_SPREAD, str(row["source"])
    others = _comparable(model, word)
    part = geometric_mean(others)
    peak = accelerator(offered(word).gke_type).bf16_tflops * 1e12
    how = f"{part:.0%} of peak, as {len(others)} published figure(s) of other models or chips"
    return flops(model, steps) / peak / part, spread(), how


def _comparable(model: Architecture, word: str) -> list[float]:
    """Return the fractions of peak of other models, of those most like a model on a chip."""
    for is_video in (model.is_video, False):
        for one in (word, ""):
            if found := reached(one, without=model.name, is_video=is_video):
                return found
    raise ValueError(f"images: must have a result of another model than {model.name}")


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
        known: str = ", ".join(sorted(each["accelerator"] for each in stages))
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
