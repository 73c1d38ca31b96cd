"""What models cost an hour and a month: at least, at most, expected, and what the prices rest on.

Only accelerator machines are counted: the cluster's fee, system nodes, load balancers, storage and
traffic out are not.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from functools import cache

from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.prices import Price, price, rung_price
from gke_inference.catalogue.rungs import Rung
from planner.amount import UNKNOWN, Amount, amount_of, largest, total

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

    @property
    def usd_per_hour(self) -> Amount:
        """The price as an amount, at least nothing where there is none."""
        return amount_of(self.price) or UNKNOWN


@dataclass(frozen=True)
class Line:
    """What one of `Served` costs; dollars an hour, None where no rung has a price.

    Minimum and expected are known from below where a rung up to the first with a price lacks a
    price or a part of one, the maximum where any rung does.
    """

    served: Served
    options: tuple[Option, ...]
    expected_replicas: int
    minimum: Amount | None
    """As few replicas as allowed, on the first rung with a price."""
    expected: Amount | None
    maximum: Amount | None
    """As many replicas as allowed, on the most expensive rung with a price."""

    @property
    def first(self) -> Option | None:
        """The rung that minimum and expected are priced on."""
        return next((option for option in self.options if option.price is not None), None)

    @property
    def unpriced(self) -> tuple[str, ...]:
        """Rungs without a price, in their order."""
        return tuple(option.rung for option in self.options if option.price is None)


@dataclass(frozen=True)
class Bill:
    """All lines, with their sums."""

    lines: tuple[Line, ...]

    def total(self, field: str) -> Amount:
        """Return the sum of `minimum`, `expected` or `maximum`, dollars an hour."""
        return total(getattr(line, field) or UNKNOWN for line in self.lines)

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
            if option.usd_per_hour.at_least
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
        InputError: the share is not above 0 and at most 1.
    """
    if not 0 < mean_share <= 1:
        raise InputError("mean_share", "must be above 0 to 1", mean_share)
    return Bill(tuple(_line(one, mean_share) for one in served))


def _line(one: Served, mean_share: float) -> Line:
    options = tuple(_option(rung, one.region) for rung in one.rungs)
    expected = max(one.minimum, math.ceil(one.maximum * mean_share))
    priced = [option.usd_per_hour for option in options if option.price is not None]
    if not priced:
        return Line(one, options, expected, None, None, None)
    first = Amount(priced[0].value, options[0].usd_per_hour.at_least)
    highest = largest(option.usd_per_hour for option in options)
    return Line(
        one, options, expected, first * one.minimum, first * expected, highest * one.maximum
    )


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
