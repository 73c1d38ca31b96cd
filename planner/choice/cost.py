"""What models cost an hour and a month: at least, at most, expected, and what the prices rest on.

Only accelerator machines are counted: the cluster's fee, system nodes, load balancers, storage and
traffic out are not.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache

from gke_inference.catalogue.prices import Price, price, rung_price
from gke_inference.catalogue.rungs import Rung

FIELDS = ("minimum", "expected", "maximum")
"""The figures of a line and of a bill."""
HOURS_PER_MONTH = 730
"""Of a year, a twelfth: as Google reckons prices a month."""
STALE_DAYS = 120
MEAN_SHARE = 0.4
"""Mean over peak of traffic by day and week, where nobody says. Assumed."""


@dataclass(frozen=True)
class Served:
    """One model, or one role of it, in one region."""

    model: str
    region: str
    rungs: tuple[Rung, ...]
    """In the order in which they are tried."""
    minimum: int
    """Replicas that always run."""
    maximum: int
    role: str = "serve"
    """`serve`, `standby` or `prefill`."""


@dataclass(frozen=True)
class Option:
    """A rung and what a replica on it costs an hour."""

    rung: str
    accelerator: str
    provisioning: str
    price: Price | None


@dataclass(frozen=True)
class Line:
    """What one of `Served` costs; dollars an hour, None where no rung has a price."""

    served: Served
    options: tuple[Option, ...]
    expected_replicas: int
    minimum: float | None
    """As few replicas as allowed, on the first rung with a price."""
    expected: float | None
    maximum: float | None
    """As many replicas as allowed, on the dearest rung with a price."""
    lower_bounds: frozenset[str]
    """Those of `minimum`, `expected` and `maximum` that lack a price or a part of one.

    The first two lack what a rung up to the first with a price lacks, the last what any rung does.
    """

    @property
    def first(self) -> Option | None:
        """The rung that minimum and expected are priced on."""
        return next((option for option in self.options if option.price is not None), None)

    def is_lower_bound(self, field: str) -> bool:
        """Return whether a price is missing in `minimum`, `expected` or `maximum`."""
        return field in self.lower_bounds

    @property
    def unpriced(self) -> tuple[str, ...]:
        """Rungs without a price, in their order."""
        return tuple(option.rung for option in self.options if option.price is None)


@dataclass(frozen=True)
class Bill:
    """All lines, with their sums."""

    lines: tuple[Line, ...]

    def total(self, field: str) -> float:
        """Return the sum of `minimum`, `expected` or `maximum`, dollars an hour."""
        return sum(getattr(line, field) or 0.0 for line in self.lines)

    def is_lower_bound(self, field: str) -> bool:
        """Return whether a price is missing in the sum of `minimum`, `expected` or `maximum`."""
        return any(line.is_lower_bound(field) for line in self.lines)

    def by(self, key: str) -> dict[str, "Bill"]:
        """Return the bills by `model`, `region` or `provisioning`."""
        found: dict[str, list[Line]] = {}
        for line in self.lines:
            first = line.first
            name = {
                "model": line.served.model,
                "region": line.served.region,
                "provisioning": first.provisioning if first else "no price",
            }[key]
            found.setdefault(name, []).append(line)
        return {name: Bill(tuple(lines)) for name, lines in found.items()}

    @property
    def unpriced(self) -> list[str]:
        """Rungs without a price, as `RUNG in REGION`."""
        names = (f"{rung} in {line.served.region}" for line in self.lines for rung in line.unpriced)
        return list(dict.fromkeys(names))

    @property
    def lacking(self) -> list[str]:
        """Rungs without a price or a part of one, as `RUNG in REGION`."""
        names = (
            f"{option.rung} in {line.served.region}"
            for line in self.lines
            for option in line.options
            if _lacks(option)
        )
        return list(dict.fromkeys(names))

    def outdated(self, today: date) -> dict[str, list[str]]:
        """Return the sources of prices that are `stale` or `undated`, with their dates."""
        found: dict[str, list[str]] = {}
        for line in self.lines:
            for option in line.options:
                if option.price is not None and (said := freshness(option.price, today)) != "fresh":
                    found.setdefault(said, []).append(f"{option.price.source}, {option.price.date}")
        return {said: list(dict.fromkeys(sources)) for said, sources in found.items()}


def bill(served: Iterable[Served], mean_share: float = MEAN_SHARE) -> Bill:
    """Return what models cost.

    Args:
        served: every model in every region.
        mean_share: mean over peak of the traffic: expected replicas are that share of the most.

    Raises:
        ValueError: the share is not above 0 and at most 1.
    """
    if not 0 < mean_share <= 1:
        raise ValueError(f"mean-share: must be above 0 to 1, got {mean_share}")
    return Bill(tuple(_line(one, mean_share) for one in served))


def _line(one: Served, mean_share: float) -> Line:
    options = tuple(_option(rung, one.region) for rung in one.rungs)
    prices = [option.price for option in options if option.price is not None]
    expected = max(one.minimum, math.ceil(one.maximum * mean_share))
    if not prices:
        return Line(one, options, expected, None, None, None, frozenset(FIELDS))
    first, dearest = prices[0].usd_per_hour, max(each.usd_per_hour for each in prices)
    return Line(
        one,
        options,
        expected,
        one.minimum * first,
        expected * first,
        one.maximum * dearest,
        _lower_bounds(options),
    )


def _lower_bounds(options: Sequence[Option]) -> frozenset[str]:
    if _lacks(options[0]):
        return frozenset(FIELDS)
    return frozenset({"maximum"}) if any(map(_lacks, options)) else frozenset()


def _lacks(option: Option) -> bool:
    return option.price is None or option.price.is_lower_bound


@cache
def machine_price(word: str, region: str, provisioning: str, machine_type: str) -> Price | None:
    """Return the price of a machine with its accelerators, or at least of these; None: no price.

    Args:
        word: accelerator, in the user's word.
        region: where the machine is.
        provisioning: how it is bought.
        machine_type: Google's name of it.
    """
    return price(word, region, provisioning, machine_type=machine_type, allow_lower_bound=True)


def _option(rung: Rung, region: str) -> Option:
    found = rung_price(rung, region, allow_lower_bound=True)
    return Option(rung.label, rung.accelerator, rung.provisioning, found)


def freshness(price: Price, today: date) -> str:
    """Return `fresh`, `stale` (older than 120 days) or `undated` (the source names a year only)."""
    try:
        age = (today - date.fromisoformat(price.date)).days
    except ValueError:
        return "undated"
    return "stale" if age > STALE_DAYS else "fresh"


def difference(before: Bill, after: Bill) -> dict[str, float]:
    """Return by how much a change makes a bill higher, dollars an hour, by field."""
    return {field: after.total(field) - before.total(field) for field in FIELDS}
