"""What would have to hold for published claims about image generation on TPU v6e.

The claims and the times of other hardware are in data/image_claims.yaml. Nothing here was measured
by this project.
"""

from dataclasses import dataclass
from math import ceil
from typing import Any

from gke_inference.catalogue.accelerators import accelerator as offered
from gke_inference.catalogue.prices import committed_machine_price
from gke_inference.catalogue.prices import price as list_price
from gke_inference.sizing.architectures import Architecture, find
from planner.choice.image_plan import usd_per_thousand
from planner.fit.chips import accelerator
from planner.fit.tables import table
from planner.speed.image_speed import REFERENCE_PIXELS, flops, seconds_of, stage_seconds

_TPU, _A100 = "tpu-v6e", "nvidia-a100-80gb"
_DAY_SECONDS = 86_400


@dataclass(frozen=True)
class Figure:
    """A published or calculated figure, beside what a claim requires."""

    claim: str
    required: str
    figure: str
    value: str
    holds: bool | None
    """Whether the figure meets the claim; None if the claim is met with enough chips."""


def figures() -> list[Figure]:
    """Return the figures for each claim.

    Raises:
        ValueError: The data names a model or a price that is unknown.
    """
    return [*_speedups(), *_costs(), *_days()]


def _speedups() -> list[Figure]:
    claim = _claims()["speedup"]
    low, high = claim["low"], claim["high"]
    claimed = f"{low} to {high} times an A100"
    found: list[Figure] = []
    names = [row["model"] for row in table("image_claims")["a100"]]
    for model in map(_model, dict.fromkeys(names)):
        own = seconds_of(model, _TPU, model.steps)[0]
        required = (
            f"{model.name}, {model.steps} steps in {own:.1f} s on a v6e: "
            f"{low * own:.1f} to {high * own:.1f} s on an A100"
        )
        for row in table("image_claims")["a100"]:
            if row["model"] != model.name:
                continue
            times = row["seconds"] * model.steps / row["steps"] / own
            what = f"{row['how']}, {row['steps']} steps in {row['seconds']:g} s on an A100"
            value, holds = f"{times:.1f} times", low <= times <= high
            found.append(Figure(claimed, required, f"published: {what}", value, holds))
    ours, theirs = (_peak_tflops(word) for word in (_TPU, _A100))
    what = f"equal shares of the peaks of {ours:g} and {theirs:g} TFLOP/s"
    times = ours / theirs
    return [*found, Figure(claimed, "any model", what, f"{times:.1f} times", times >= low)]


def _costs() -> list[Figure]:
    limit = _claims()["usd_per_thousand"]["limit"]
    found: list[Figure] = []
    for term, usd in _chip_hours():
        required = f"at ${usd:.2f} an hour ({term}), {3.6 * limit / usd:.2f} s an image"
        for what, seconds in _times():
            cost = usd_per_thousand(seconds, usd)
            value = f"{seconds:.2f} s, ${cost:.2f}"
            claimed = f"{100 * limit:.0f} cents per 1,000 images"
            found.append(Figure(claimed, required, what, value, cost <= limit))
    return found


def _chip_hours() -> list[tuple[str, float]]:
    """Return the ways to buy a chip, each with its dollars per hour."""
    region, machine = (table("image_claims")["chip"][key] for key in ("region", "machine_type"))
    prices = {
        "on demand": list_price(_TPU, region, "on-demand", machine_type=machine),
        "three-year commitment": committed_machine_price(_TPU, region, 3, machine_type=machine),
        f"Spot in {region}": list_price(_TPU, region, "spot", machine_type=machine),
    }
    for term, price in prices.items():
        if price is None:
            raise ValueError(f"image_claims: chip must have a price {term}, got {machine!r}")
    return [(term, price.usd_per_hour) for term, price in prices.items() if price is not None]


def _days() -> list[Figure]:
    claim = _claims()["images_a_day"]
    rate, busy = claim["count"] / _DAY_SECONDS, claim["busy"]
    return [
        Figure(
            f"{claim['count']:,} images a day",
            f"{rate:.1f} images a second",
            what,
            f"{seconds:.2f} s, {ceil(rate * seconds)} busy chips, "
            f"{ceil(rate * seconds / busy)} at {busy:.0%}",
            None,
        )
        for what, seconds in _times()
    ]


def _times() -> list[tuple[str, float]]:
    """Return descriptions of images, each with its seconds on a chip."""
    names = table("image_claims")["models"]
    found: list[tuple[str, float]] = []
    for model in map(_model, names):
        seconds = seconds_of(model, _TPU, model.steps)[0]
        found.append((f"published: {model.name}, {model.steps} steps", seconds))
    for step in table("image_claims")["step_seconds"]:
        model = _model(step["model"])
        stages = stage_seconds(_TPU, pixels=REFERENCE_PIXELS, model=model)
        whole = stages.text_encode + model.steps * step["seconds"] + stages.vae_decode
        found.append((f"compiler estimate: {model.name}, {model.steps} steps", whole))
        least = flops(model, model.steps) / (_peak_tflops(_TPU) * 1e12)
        found.append((f"full peak: {model.name}, {model.steps} steps", least))
    return found


def _claims() -> dict[str, Any]:
    return table("image_claims")["claims"]


def _peak_tflops(word: str) -> float:
    return accelerator(offered(word).gke_type).bf16_tflops


def _model(name: str) -> Architecture:
    model = find(name)
    if model is None:
        raise ValueError(f"image_claims: must name a known model, got {name!r}")
    return model
