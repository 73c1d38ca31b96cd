"""Which hardware makes pictures, how fast and for how much.

A picture takes the operations of its denoising steps, at the part of peak that published pictures
of the same accelerator reached: those of the same model where there are any, or else the middle of
what others reached, with a wider interval. What a published time leaves out is added (`left_out`
in data/pictures.yaml). One chip holds a whole model; replicas are chips.
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
from gke_inference.catalogue.input_error import Bare, InputError
from gke_inference.catalogue.prices import price
from gke_inference.sizing.architectures import Architecture, find
from gke_inference.sizing.image_memory import check_copies_fit, served_gib
from planner.fit.chips import accelerator
from planner.fit.tables import table

MEASURED_SPREAD = 1.15
"""Where the model was measured on the accelerator: between submissions of one round of MLPerf."""
_UTILISATION = 0.7
MOST_RATE = 1e6
"""Pictures a second that are planned for at most: more than all chips of a region draw."""


@dataclass(frozen=True)
class PictureChoice:
    """One way to make pictures."""

    accelerator: str
    machine_type: str
    chips: int
    """For the rate asked for."""
    provisioning: str
    region: str
    seconds_low: float
    """Of one picture on one chip."""
    seconds: float
    seconds_high: float
    is_measured: bool
    usd_per_hour: float
    usd_per_thousand_low: float
    usd_per_thousand: float
    usd_per_thousand_high: float
    source: str


def flops(model: Architecture, steps: int) -> float:
    """Return the operations of one picture's denoising."""
    once = model.flops_per_step
    if not once:
        tokens = model.latent_tokens
        once = 2e9 * model.denoiser_billion * tokens + 4 * model.layers * model.hidden * tokens**2
    return once * model.passes * steps


def reached(word: str, *, without: str = "") -> list[float]:
    """Return the parts of the bf16 peak that published pictures of an accelerator reached.

    Args:
        word: accelerator, in the user's word; empty: any.
        without: a model whose own figures are left out.
    """
    found: list[float] = []
    for row in table("pictures")["measured"]:
        model = find(row["model"])
        if model is None or row["model"] == without:
            continue
        if word and row["accelerator"] != word:
            continue
        peak = accelerator(offered(row["accelerator"]).gke_type).bf16_tflops * 1e12
        found.append(flops(model, row["steps"]) * row["per_second"] / peak)
    return found


def spread() -> float:
    """Return the factor that four in five accelerators' parts of peak lie within."""
    every = sorted(abs(math.log(part / geometric_mean(reached("")))) for part in reached(""))
    return math.exp(every[int(0.8 * (len(every) - 1))])


def measured(model: str, word: str) -> dict[str, Any] | None:
    """Return the published pictures of a model on an accelerator; None where there are none."""
    rows: list[dict[str, Any]] = table("pictures")["measured"]
    return next((r for r in rows if r["model"] == model and r["accelerator"] == word), None)


def usd_per_thousand(seconds: float, usd_per_chip_hour: float, utilisation: float = 1.0) -> float:
    """Return what a thousand pictures cost.

    Args:
        seconds: of one picture on one chip.
        usd_per_chip_hour: of one chip with its host.
        utilisation: share of the paid time in which a chip draws, above 0 and at most 1.

    Raises:
        ValueError: a number is out of its range.
    """
    if seconds <= 0 or usd_per_chip_hour < 0:
        raise ValueError(f"seconds and price must be positive, got {seconds}, {usd_per_chip_hour}")
    if not 0 < utilisation <= 1:
        raise InputError("utilisation", "must be above 0 and at most 1", utilisation)
    return 1000 * seconds / 3600 * usd_per_chip_hour / utilisation


def seconds_of(model: Architecture, word: str, steps: int) -> tuple[float, float, str]:
    """Return the seconds of one picture on one chip, the factor of doubt, and the source."""
    row = measured(model.name, word)
    if row is not None:
        seconds = steps / row["steps"] / row["per_second"] + row.get("left_out_seconds", 0.0)
        return seconds, MEASURED_SPREAD, str(row["source"])
    others = reached(word, without=model.name) or reached("", without=model.name)
    part = geometric_mean(others)
    peak = accelerator(offered(word).gke_type).bf16_tflops * 1e12
    how = f"{part:.0%} of peak, as {len(others)} published figure(s) of other models or chips"
    return flops(model, steps) / peak / part, spread(), how


def picture_choices(
    model: Architecture,
    rate: float,
    *,
    steps: int = 0,
    regions: Sequence[str] = (),
    provisioning: Sequence[str] = (),
    accelerators: Sequence[str] = (),
) -> list[PictureChoice]:
    """Return every chip that holds a model of pictures, the cheapest picture first.

    Args:
        model: of pictures.
        rate: pictures a second at the busiest time.
        steps: of a picture; 0: the model's own.
        regions: to look in; empty: all.
        provisioning: ways to buy; empty: all whose price is published by the hour.
        accelerators: in the user's words; empty: all.

    Raises:
        ValueError: it is no model of pictures, or the rate is not positive.
    """
    if model.kind != "diffusion":
        raise InputError("model", "must be a model of pictures", Bare(model.name))
    if not 0 < rate <= MOST_RATE:
        raise InputError("rate", f"must be above 0 to {MOST_RATE:g}", Bare(f"{rate:g}"))
    found: list[PictureChoice] = []
    for word in accelerators or accelerator_names():
        if check_copies_fit(word, served_gib(model)) is not None:
            continue
        for region in regions_of(word):
            if not regions or region in regions:
                found += _bought(model, word, region, rate, steps or model.steps)
    if provisioning:
        found = [one for one in found if one.provisioning in provisioning]
    return sorted(found, key=lambda one: one.usd_per_thousand)


def _bought(
    model: Architecture, word: str, region: str, rate: float, steps: int
) -> list[PictureChoice]:
    seconds, doubt, source = seconds_of(model, word, steps)
    smallest = min(offered(word).machines, key=lambda entry: entry.chips)
    found: list[PictureChoice] = []
    for way in PROVISIONING:
        if way in ("reservation", "calendar") or not is_sold(word, smallest.name, region, way):
            continue
        listed = price(word, region, way, machine_type=smallest.name)
        if listed is None:
            continue
        each = listed.usd_per_hour / smallest.chips
        chips = math.ceil(rate * seconds / _UTILISATION / smallest.chips) * smallest.chips
        thousand = usd_per_thousand(1 / rate, each * chips)
        found.append(
            PictureChoice(
                word,
                smallest.name,
                chips,
                way,
                region,
                seconds / doubt,
                seconds,
                seconds * doubt,
                doubt == MEASURED_SPREAD,
                chips * each,
                thousand / doubt,
                thousand,
                thousand * doubt,
                source,
            )
        )
    return found
