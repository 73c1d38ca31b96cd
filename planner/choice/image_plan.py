"""Hardware for the generation of images and videos, with speed and cost.

The time of an image is the compute of its denoising steps at the fraction of peak that published
images reached on the same accelerator: with the same model if available, otherwise the median of
other models, with a wider interval. The same holds for videos. Time that a published figure
excludes is added (`left_out` in data/images.yaml). One chip holds a whole model; each chip is a
replica.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import geometric_mean
from typing import Any

from gke_inference.catalogue.accelerators import (
    PROVISIONING,
    accelerator_names,
    is_sold,
    regions_of,
)
from gke_inference.catalogue.accelerators import accelerator as offered
from gke_inference.catalogue.engines import engine as engine_facts
from gke_inference.catalogue.input_error import Bare, InputError
from gke_inference.catalogue.prices import price
from gke_inference.sizing.architectures import Architecture, find
from gke_inference.sizing.image_memory import (
    check_copies_fit,
    image_room_gib,
    served_gib,
    video_room_gib,
    video_tokens,
)
from planner.fit.chips import accelerator
from planner.fit.tables import table

MEASURED_SPREAD = 1.15
"""Where the model was measured on the accelerator: between submissions of one round of MLPerf."""
_UTILISATION = 0.7
_ENGINE = "diffusion"
MOST_RATE = 1e6
"""Maximum rate in images or videos per second: more than all chips of a region can generate."""


@dataclass(frozen=True)
class ImageChoice:
    """A choice of hardware for images or videos of the size in `Architecture.output`."""

    accelerator: str
    machine_type: str
    chips: int
    """Number of chips for the requested rate."""
    provisioning: str
    region: str
    seconds_low: float
    """Seconds for one image or video on one chip."""
    seconds: float
    seconds_high: float
    is_measured: bool
    is_served: bool
    """Whether the image server of this project can serve the model on this accelerator."""
    usd_per_hour: float
    usd_per_thousand_low: float
    usd_per_thousand: float
    usd_per_thousand_high: float
    source: str


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


def is_served(model: Architecture, word: str) -> bool:
    """Return whether an engine of this project serves a model on an accelerator."""
    able = engine_facts(_ENGINE).abilities(offered(word).kind, word)
    return bool(model.pipeline) and able is not None


def usd_per_thousand(seconds: float, usd_per_chip_hour: float, utilisation: float = 1.0) -> float:
    """Return the cost of a thousand images or videos.

    Args:
        seconds: Time for one image or video on one chip, in seconds.
        usd_per_chip_hour: Hourly price of one chip with its host, in dollars.
        utilisation: Busy share of the paid time, above 0 and at most 1.

    Raises:
        ValueError: A number is out of its range.
    """
    if seconds <= 0 or usd_per_chip_hour < 0:
        raise ValueError(f"seconds and price must be positive, got {seconds}, {usd_per_chip_hour}")
    if not 0 < utilisation <= 1:
        raise InputError("utilisation", "must be above 0 and at most 1", utilisation)
    return 1000 * seconds / 3600 * usd_per_chip_hour / utilisation


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


def image_choices(
    model: Architecture,
    rate: float,
    *,
    steps: int = 0,
    regions: Sequence[str] = (),
    provisioning: Sequence[str] = (),
    accelerators: Sequence[str] = (),
) -> list[ImageChoice]:
    """Return every chip that fits a model of images or videos, sorted by cost of each.

    Args:
        model: Model of images or videos.
        rate: Peak rate, in images or videos per second.
        steps: Denoising steps of each; 0 for the model's default.
        regions: Regions to consider; empty for all.
        provisioning: Provisioning to consider; empty for all with a published hourly price.
        accelerators: Accelerators, in the user's words; empty for all.

    Raises:
        ValueError: It is not an image model, or the rate is not positive.
    """
    if model.kind != "diffusion":
        raise InputError("model", "must be an image model", Bare(model.name))
    if not 0 < rate <= MOST_RATE:
        raise InputError("rate", f"must be above 0 and at most {MOST_RATE:g}", Bare(f"{rate:g}"))
    found: list[ImageChoice] = []
    for word in accelerators or accelerator_names():
        room = _room_gib(model)
        if check_copies_fit(word, served_gib(model), room=room) is not None:
            continue
        for region in regions_of(word):
            if not regions or region in regions:
                found += _bought(model, word, region, rate, steps or model.steps)
    if provisioning:
        found = [one for one in found if one.provisioning in provisioning]
    return sorted(found, key=lambda one: one.usd_per_thousand)


def _room_gib(model: Architecture) -> float:
    if not model.is_video:
        return image_room_gib([(model.name, model.name)])
    width, height, frames = model.output
    return video_room_gib([f"{width}x{height}"], [frames])


def _bought(
    model: Architecture, word: str, region: str, rate: float, steps: int
) -> list[ImageChoice]:
    seconds, doubt, source = seconds_of(model, word, steps)
    smallest = min(offered(word).machines, key=lambda entry: entry.chips)
    found: list[ImageChoice] = []
    for provisioning in PROVISIONING:
        if provisioning in ("reservation", "calendar") or not is_sold(
            word, smallest.name, region, provisioning
        ):
            continue
        listed = price(word, region, provisioning, machine_type=smallest.name)
        if listed is None:
            continue
        each = listed.usd_per_hour / smallest.chips
        chips = math.ceil(rate * seconds / _UTILISATION / smallest.chips) * smallest.chips
        thousand = usd_per_thousand(1 / rate, each * chips)
        found.append(
            ImageChoice(
                word,
                smallest.name,
                chips,
                provisioning,
                region,
                seconds / doubt,
                seconds,
                seconds * doubt,
                doubt == MEASURED_SPREAD,
                is_served(model, word),
                chips * each,
                thousand / doubt,
                thousand,
                thousand * doubt,
                source,
            )
        )
    return found
