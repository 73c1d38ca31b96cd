"""Hardware for the generation of images and videos, with speed and cost.

One chip holds a whole model; each chip is a replica.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gke_inference.catalogue.accelerators import (
    PROVISIONING,
    accelerator_names,
    is_sold,
    regions_of,
)
from gke_inference.catalogue.accelerators import accelerator as offered
from gke_inference.catalogue.engines import engine as engine_facts
from gke_inference.catalogue.engines import engines_for
from gke_inference.catalogue.input_error import Bare, InputError
from gke_inference.catalogue.prices import price
from gke_inference.sizing.architectures import Architecture
from gke_inference.sizing.image_memory import (
    check_copies_fit,
    image_room_gib,
    served_gib,
    video_room_gib,
)
from planner.speed.image_speed import MEASURED_SPREAD, seconds_of

_UTILISATION = 0.7
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
    """Whether the time was published for this accelerator; only `-o json` shows it."""
    is_served: bool
    """Whether the image server of this project can serve the model on this accelerator."""
    usd_per_hour: float
    usd_per_thousand_low: float
    usd_per_thousand: float
    usd_per_thousand_high: float
    source: str


def is_served(model: Architecture, word: str) -> bool:
    """Return whether an engine of this project serves a model on an accelerator."""
    task, kind = "video" if model.is_video else "image", offered(word).kind
    able = [engine_facts(name).abilities(kind, word) for name in engines_for(task)]
    return bool(model.pipeline) and any(able)


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
    if not model.is_diffusion:
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
