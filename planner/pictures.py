"""Which hardware makes pictures, how fast and for how much.

A picture takes the operations of its denoising steps, at the part of peak that published pictures
of the same accelerator reached: those of the same model where there are any, or else the middle of
what others reached, with a wider interval. Encoding the prompt and decoding the picture are in the
published times. One chip holds a whole model; replicas are chips.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import geometric_mean

from gke_inference.accelerators import PROVISIONING, accelerator_names, regions_of
from gke_inference.accelerators import accelerator as offered
from gke_inference.prices import price
from planner.architectures import Architecture, find
from planner.chips import RUNTIME_MEMORY_GB, accelerator
from planner.tables import table

MEASURED_SPREAD = 1.15
"""Where the model was measured on the accelerator: between submissions of one round of MLPerf."""
_UTILISATION = 0.7


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


def seconds_of(model: Architecture, word: str, steps: int) -> tuple[float, float, str]:
    """Return the seconds of one picture on one chip, the factor of doubt, and the source."""
    for row in table("pictures")["measured"]:
        if row["model"] == model.name and row["accelerator"] == word:
            seconds = steps / row["steps"] / row["per_second"]
            return seconds, MEASURED_SPREAD, str(row["source"])
    others = reached(word, without=model.name) or reached("", without=model.name)
    part = geometric_mean(others)
    peak = accelerator(offered(word).gke_type).bf16_tflops * 1e12
    how = f"{part:.0%} of peak, as {len(others)} published figure(s) of other models or chips"
    return flops(model, steps) / peak / part, spread(), how


def picture_choices(
    model: Architecture, rate: float, *, steps: int = 0, regions: Sequence[str] = ()
) -> list[PictureChoice]:
    """Return every chip that holds a model of pictures, the cheapest picture first.

    Args:
        model: of pictures.
        rate: pictures a second at the busiest time.
        steps: of a picture; 0: the model's own.
        regions: to look in; empty: all.

    Raises:
        ValueError: it is no model of pictures, or the rate is not positive.
    """
    if model.kind != "diffusion" or rate <= 0:
        raise ValueError(f"must be a model of pictures, and a rate, got {model.name}, {rate}")
    found: list[PictureChoice] = []
    for word in accelerator_names():
        chip = accelerator(offered(word).gke_type)
        needed = model.parameters_billion * model.bits / 8 + RUNTIME_MEMORY_GB[chip.kind]
        if needed > chip.memory_gb:
            continue
        for region in regions_of(word):
            if not regions or region in regions:
                found += _bought(model, word, region, rate, steps or model.steps)
    return sorted(found, key=lambda one: one.usd_per_thousand)


def _bought(
    model: Architecture, word: str, region: str, rate: float, steps: int
) -> list[PictureChoice]:
    seconds, doubt, source = seconds_of(model, word, steps)
    smallest = min(offered(word).machines, key=lambda entry: entry.chips)
    found: list[PictureChoice] = []
    for way in PROVISIONING:
        if way in ("reservation", "calendar"):
            continue
        listed = price(word, region, way, machine_type=smallest.name)
        if listed is None:
            continue
        each = listed.usd_per_hour / smallest.chips
        chips = math.ceil(rate * seconds / _UTILISATION / smallest.chips) * smallest.chips
        thousand = each * chips / (rate * 3.6)
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
