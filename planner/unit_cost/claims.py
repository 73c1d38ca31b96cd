"""Published claims, and what this project computes or measures for each.

The claims are data/claims.yaml. Prices and chips are those of the catalog, start times those of
data/coldstart.yaml, speeds published ones (data/images.yaml, data/benchmarks.csv), and routing the
results of `bench routing`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from gke_inference.catalogue.accelerators import accelerator as offered
from gke_inference.catalogue.accelerators import accelerator_names
from gke_inference.catalogue.prices import committed_machine_price, price
from gke_inference.sizing.architectures import find
from planner.choice.coldstart import ColdStart, Stage, cold_start
from planner.choice.image_plan import usd_per_thousand
from planner.fit.chips import accelerator
from planner.fit.tables import table
from planner.speed.image_speed import MEASURED_SPREAD, measured, seconds_of
from planner.speed.points import rows
from planner.unit_cost.routing_ratios import (
    BASELINE,
    DEFAULTS,
    Results,
    ratio,
    results_of,
    tails_over_seeds,
)

_TPU, _OLDER_TPU, _REGION = "tpu-v6e", "tpu-v5e", "us-central1"
_TPU_MACHINE = "ct6e-standard-1t"
_A100 = {"nvidia-a100-40gb": "a2-highgpu-1g", "nvidia-a100-80gb": "a2-ultragpu-1g"}
_DAY_SECONDS, _IMAGES_A_DAY, _BUSY = 86_400, 500_000, 0.7
_WEIGHTS_GB = 16.1
"""Weights of Llama 3.1 8B with 16 bits."""
_SATURATED_QPS = 20.0


@dataclass(frozen=True)
class Figure:
    """What this project has for a claim, with its range."""

    of: str
    """What it is, and where its range is from."""
    value: float
    low: float
    high: float
    unit: str
    """`times`, `%`, `$` or `chips`."""


@dataclass(frozen=True)
class Claim:
    """A published claim."""

    name: str
    title: str
    claimed: str
    by: str
    source: str
    date: str
    confidence: str
    """`read` or `known`."""
    requires: str
    """What must hold for it to be true of the reader."""
    command: str
    """Command that shows the figures, or what they are made of."""
    figures: tuple[Figure, ...]
    target: float | None = None
    """Claimed number in the unit of the figures; None for a claim without a ratio."""
    below: bool = False
    """Whether less than the target is better."""
    is_independent: bool = True
    """Whether the figures have another source than the claim."""
    note: str = ""
    settles: str = ""
    """Measurement on a real chip or bill that settles it; empty where none is needed."""

    def verdict(self, figure: Figure) -> str:
        """Return whether a figure meets the claim: `yes`, `no`, or `partly` (some of its range).

        Empty for a claim without a target; `not independent` if the claim is the figure's source.
        """
        if self.target is None:
            return ""
        if not self.is_independent:
            return "not independent"
        # a published number has two digits: 4.66 meets 4.7
        value, low, high = (_two_digits(each) for each in (figure.value, figure.low, figure.high))
        if self.below:
            value, low, high, target = -value, -high, -low, -self.target
        else:
            target = self.target
        if value >= target:
            return "yes"
        return "partly" if high >= target else "no"


def _two_digits(value: float) -> float:
    return float(f"{value:.2g}")


def claims(routing_page: str) -> tuple[Claim, ...]:
    """Return all claims with their figures.

    Args:
        routing_page: Text of docs/routing-results.md.

    Raises:
        ValueError: The page, or a table, lacks what a claim needs.
    """
    routing = results_of(routing_page)
    made: dict[str, Callable[[], Sequence[Figure]]] = {
        "images-cents": _image_costs,
        "images-a100": _a100,
        "images-a-day": _images_a_day,
        "boot-disk": _boot_disk,
        "container-compute": _container_compute,
        "trillium-peak": _peaks,
        "trillium-inference": _generations,
        "jetstream": lambda: (),
        "dws-flex": lambda: [_discount("flex-start")],
        "dws-calendar": lambda: [_discount("calendar")],
        "gateway-latency": lambda: _tails(routing, routing_page),
        "gateway-throughput": lambda: _gateway(routing, "tokens_per_second", _gain),
        "gateway-cost": lambda: _gateway(routing, "usd_per_million", _saving),
        "lora": lambda: _lora(routing),
    }
    rows: list[dict[str, Any]] = table("claims")["claims"]
    return tuple(Claim(**row, figures=tuple(made[row["name"]]())) for row in rows)


def _image_costs() -> list[Figure]:
    """Return the dollars of 1,000 images on busy chips, by the way to buy them."""
    seconds = _seconds("stable-diffusion-xl")
    ways = {
        "three-year commitment": _price(committed_machine_price, 3),
        "Spot": _price(price, "spot"),
        "on demand": _price(price, "on-demand"),
    }
    found: list[Figure] = []
    for way, usd in ways.items():
        cost = usd_per_thousand(seconds, usd)
        what = f"Stable Diffusion XL, MLPerf v4.1, {way} in {_REGION}; range: one MLPerf round"
        found.append(Figure(what, cost, cost / MEASURED_SPREAD, cost * MEASURED_SPREAD, "$"))
    return found


def _price(of: Callable[..., Any], how: int | str) -> float:
    found = of(_TPU, _REGION, how, machine_type=_TPU_MACHINE)
    if found is None:
        raise ValueError(f"claims: {_TPU_MACHINE} must have a price for {how}, got none")
    return float(found.usd_per_hour)


def _seconds(name: str) -> float:
    model = find(name)
    if model is None:
        raise ValueError(f"claims: must name a known model, got {name!r}")
    return seconds_of(model, _TPU, model.steps)[0]


def _a100() -> list[Figure]:
    """Return the ratios of speed and of cost per image to an A100, on demand."""
    found: list[Figure] = []
    usd = _price(price, "on-demand")
    for name, title in (
        ("flux.1-dev", "FLUX.1 dev"),
        ("stable-diffusion-xl", "Stable Diffusion XL"),
    ):
        model = find(name)
        rows = [row for row in table("image_claims")["a100"] if row["model"] == name]
        if model is None or not rows:
            raise ValueError(f"claims: image_claims must have {name} on an A100, got none")
        own = _seconds(name)
        times = [row["seconds"] * model.steps / row["steps"] / own for row in rows]
        ratios = [each * _a100_usd(gpu) / usd for each in times for gpu in _A100]
        what = f"{title}: cost on demand; range: A100 of 40 and 80 GB, and ways to run it"
        found.append(Figure(what, *_middle(ratios), "times"))
        what = f"{title}: speed; range: ways to run the A100"
        found.append(Figure(what, *_middle(times), "times"))
    return found


def _a100_usd(gpu: str) -> float:
    found = price(gpu, _REGION, "on-demand", machine_type=_A100[gpu])
    if found is None:
        raise ValueError(f"claims: {_A100[gpu]} must have a price on demand, got none")
    return found.usd_per_hour


def _middle(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the geometric middle of the ends, and the ends."""
    low, high = min(values), max(values)
    return (low * high) ** 0.5, low, high


def _images_a_day() -> list[Figure]:
    found: list[Figure] = []
    for name, title in (("flux.1-schnell", "FLUX.1 schnell"), ("flux.1-dev", "FLUX.1 dev")):
        chips = [
            float(ceil(_IMAGES_A_DAY / _DAY_SECONDS * _seconds(name) * spread / _BUSY))
            for spread in (1.0, 1 / MEASURED_SPREAD, MEASURED_SPREAD)
        ]
        what = f"v6e chips that are busy {_BUSY:.0%} of the time with {title}"
        found.append(Figure(what, chips[0], chips[1], chips[2], "chips"))
    return found


def _boot_disk() -> list[Figure]:
    """Return how much faster the pull and the whole start get on an existing GPU node."""
    plain, preloaded = (_start(image=image) for image in ("plain", "boot-disk"))
    pull, disk = (_stage(start, "image") for start in (plain, preloaded))
    return [
        Figure(
            "start of a replica on an existing GPU node, 8B model, weights streamed",
            plain.seconds / preloaded.seconds,
            _with(plain, "image", pull.low, "high") / _with(plain, "image", disk.high, "high"),
            _with(plain, "image", pull.high, "low") / _with(plain, "image", disk.low, "low"),
            "times",
        ),
        Figure(
            "pull of the image alone: 8.9 GB in 69 s as published, and 1 s assumed from the disk",
            pull.seconds / disk.seconds,
            pull.low / disk.high,
            pull.high / disk.low,
            "times",
        ),
    ]


def _container_compute() -> list[Figure]:
    """Return how much faster a start with a new node gets when its node is faster."""
    start = _start(provisioning="on-demand")
    node = _stage(start, "node")
    found: list[Figure] = []
    for times in (7, 4):
        what = f"start of a replica on a new GPU node that is ready {times} times faster"
        found.append(
            Figure(
                what,
                start.seconds / _with(start, "node", node.seconds / times, "seconds"),
                _with(start, "node", node.low, "high")
                / _with(start, "node", node.low / times, "high"),
                _with(start, "node", node.high, "low")
                / _with(start, "node", node.high / times, "low"),
                "times",
            )
        )
    return found


def _start(*, image: str = "streamed", provisioning: str | None = None) -> ColdStart:
    return cold_start(
        "gpu", _WEIGHTS_GB, provisioning=provisioning, image=image, weights="streamer"
    )


def _stage(start: ColdStart, name: str) -> Stage:
    return next(stage for stage in start.stages if stage.name == name)


def _with(start: ColdStart, name: str, seconds: float, end: str) -> float:
    """Return the sum of the stages at one end of their ranges, with another time for one."""
    return seconds + sum(getattr(each, end) for each in start.stages if each.name != name)


def _peaks() -> list[Figure]:
    ours, older = (accelerator(offered(word).gke_type) for word in (_TPU, _OLDER_TPU))
    peak = ours.bf16_tflops / older.bf16_tflops
    what = f"{ours.bf16_tflops:g} over {older.bf16_tflops:g} TFLOP/s with 16 bits, data sheets"
    return [Figure(what, peak, peak, peak, "times")]


def _generations() -> list[Figure]:
    """Return the published speeds of v6e over those of v5e."""
    ours, older = (measured("stable-diffusion-xl", word) for word in (_TPU, _OLDER_TPU))
    if ours is None or older is None:
        raise ValueError("claims: images must have Stable Diffusion XL on both TPUs, got none")
    images = ours["per_second"] / older["per_second"]
    spread = MEASURED_SPREAD
    text = [
        _published("tpu-v6e-slice", load) / _published("tpu-v5-lite-podslice", load)
        for load in ("1 concurrent", "64 concurrent")
    ]
    usd = _price(price, "on-demand")
    other = price(_OLDER_TPU, _REGION, "on-demand", machine_type="ct5lp-hightpu-1t")
    if other is None:
        raise ValueError("claims: ct5lp-hightpu-1t must have a price on demand, got none")
    dollars = [each * other.usd_per_hour / usd for each in text]
    return [
        Figure(
            "Stable Diffusion XL, MLPerf v4.1: offline on v6e, server on v5e; range: one round",
            images,
            images / spread,
            images * spread,
            "times",
        ),
        Figure("tokens/s of Gemma 4 E2B, one to 64 requests, published", *_middle(text), "times"),
        Figure("the same tokens per dollar, on demand", *_middle(dollars), "times"),
    ]


def _published(chip: str, load: str) -> float:
    """Return the published tokens per second of Gemma 4 E2B on one chip, 128 tokens in and out."""
    return next(
        float(row["output_tokens_per_second"])
        for row in rows()
        if (row["model"], row["accelerator"]) == ("gemma-4-E2B-it", chip)
        and (row["input_tokens"], row["output_tokens"]) == ("128", "128")
        and row["load"].startswith(load)
    )


def _discount(way: str) -> Figure:
    """Return the discount of a way to buy: of a v6e chip, and the range over accelerators."""
    found: dict[str, float] = {}
    trust = ""
    for name in accelerator_names():
        for machine in offered(name).machines:
            at, usual = (
                price(name, _REGION, each, machine_type=machine.name) for each in (way, "on-demand")
            )
            if at is None or usual is None:
                continue
            found[name] = 100 * (1 - at.usd_per_hour / usual.usd_per_hour)
            trust = at.confidence if name == _TPU else trust
            break
    what = f"v6e in {_REGION}, a price that is {trust}; range: {len(found)} kinds of accelerators"
    return Figure(what, found[_TPU], min(found.values()), max(found.values()), "%")


def _gain(each: float) -> float:
    return 100 * (each - 1)


def _saving(each: float) -> float:
    return 100 * (1 - each)


def _gateway(routing: Results, measure: str, of: Callable[[float], float]) -> list[Figure]:
    """Return the change against round robin and the picker's defaults, saturated by prefixes."""
    found: list[Figure] = []
    for to, title in ((BASELINE, "round robin"), (DEFAULTS, "the picker's defaults")):
        value = of(ratio(routing, "shared_prefix", measure, to, _SATURATED_QPS))
        over = [of(ratio(routing, name, measure, to)) for name in routing]
        what = f"shared prefixes from {_SATURATED_QPS:g} QPS, against {title}; range: workloads"
        found.append(Figure(what, value, min(*over, value), max(*over, value), "%"))
    return found


def _tails(routing: Results, page: str) -> list[Figure]:
    """Return the change of p99 TTFT; that against the defaults is over seeds."""
    first = _gateway(routing, "ttft_p99_ms", _saving)[0]
    seeds = [_saving(each) for each in tails_over_seeds(page)]
    if not seeds:
        raise ValueError("docs/routing-results.md: must have bounds on p99 over seeds, got none")
    what = "shared prefixes to 30 QPS, against the picker's defaults, 8 seeds; range: rates"
    mean = sum(seeds) / len(seeds)
    return [first, Figure(what, mean, min(seeds), max(seeds), "%")]


def _lora(routing: Results) -> list[Figure]:
    found: list[Figure] = []
    rates = sorted({rate for rate, _ in routing["lora"]})
    for to, title in ((BASELINE, "round robin"), (DEFAULTS, "the picker's defaults")):
        rows = routing["lora"]
        each = [
            _gain(rows[rate, "shipped"].tokens_per_second / rows[rate, to].tokens_per_second)
            for rate in rates
        ]
        value = _gain(ratio(routing, "lora", "tokens_per_second", to))
        what = f"throughput with many adapters, against {title}; range: rates"
        found.append(Figure(what, value, min(each), max(each), "%"))
    return found
