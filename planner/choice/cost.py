"""Hourly cost of models: minimum, maximum and expected, with the sources of prices.

Only accelerator machines are counted here; `infra.estimate.stack_cost` adds the rest of a platform.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date
from functools import cache

from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.prices import Price, price, rung_price
from gke_inference.catalogue.rungs import Rung
from planner.amount import (
    HOURS_PER_MONTH,
    UNVERIFIED_MARK,
    Amount,
    Count,
    Missing,
    largest,
    priced,
    total,
    without_price,
)
from planner.choice.served import Served

FIELDS = ("minimum", "expected", "maximum")
"""Amounts of a line and of a bill."""
BILL_KEYS = ("model", "region", "provisioning")
"""Keys by which a bill is split."""
STALE_DAYS = 120
MEAN_SHARE = 0.4
"""Default ratio of mean to peak traffic over day and week. Assumed."""


def amount_of(price: Price | None, what: str, region: str) -> Amount:
    """Return an hour's price as an amount.

    Args:
        price: Price; None if none is published.
        what: Item.
        region: Region of the item.
    """
    if price is None:
        return without_price(what, region)
    lacks = (Missing(f"the host of {what}", region),) if price.lacks_host else ()
    known = priced(price.usd_per_hour, what, region, is_verified=price.is_verified)
    return replace(known, missing=lacks)


def unverified_mark(prices: Iterable[Price | None]) -> str:
    """Return the mark of figures that rest on an unverified price, or nothing."""
    found = (price for price in prices if price is not None)
    return UNVERIFIED_MARK if any(not each.is_verified for each in found) else ""


@dataclass(frozen=True)
class Option:
    """A rung in a region, with the hourly cost of a replica."""

    rung: str
    region: str
    accelerator: str
    provisioning: str
    price: Price | None
    share: float = 1.0
    """Share of a month in which the rung exists, below 1 for a reservation in calendar mode."""

    @property
    def usd_per_hour(self) -> Amount:
        """Price as an amount, with its unpriced items."""
        return amount_of(self.price, self.rung, self.region)


@dataclass(frozen=True)
class Line:
    """Cost of one `Served`, in dollars per hour.

    Minimum and expected cost exclude the rungs without a price before the first priced rung. The
    maximum excludes every rung without a price. A reservation in calendar mode counts for its
    period, and the next rungs for the rest of a month.
    """

    served: Served
    options: tuple[Option, ...]
    expected_replicas: float
    """Mean over a week; a whole number without a schedule."""
    minimum: Amount
    """Mean minimum of replicas in a week, on the first rung with a price; 0 if no rung has one."""
    expected: Amount
    maximum: Amount
    """Maximum replicas on the most expensive rung with a price."""

    @property
    def replicas(self) -> Count:
        """Number of replicas."""
        return Count(self.minimum_replicas, self.expected_replicas, self.served.replicas.max)

    @property
    def minimum_replicas(self) -> float:
        """Mean minimum of replicas over a week; a whole number without a schedule."""
        return self.served.mean_at_least(0)

    @property
    def first(self) -> Option | None:
        """Rung for pricing minimum and expected cost."""
        return next((option for option in self.options if option.price is not None), None)

    @property
    def rung(self) -> Rung | None:
        """That rung; the first rung if none has a price, or None if there are no rungs."""
        rungs, first = self.served.rungs, self.first
        named = (rung for rung in rungs if first is not None and rung.label == first.rung)
        return next(named, rungs[0] if rungs else None)

    @property
    def replica(self) -> Amount | None:
        """Hourly price of a replica on that rung; it also lists the unpriced rungs before it."""
        return None if self.first is None else _replica(self.options)

    @property
    def unpriced(self) -> tuple[str, ...]:
        """Rungs without a price, in order."""
        return tuple(option.rung for option in self.options if option.price is None)


@dataclass(frozen=True)
class Bill:
    """All lines, with their sums."""

    lines: tuple[Line, ...]

    def total(self, field: str) -> Amount:
        """Return the sum of `minimum`, `expected` or `maximum`, in dollars per hour."""
        return total(getattr(line, field) for line in self.lines)

    def by(self, key: str) -> dict[str, "Bill"]:
        """Return the bills by one of `BILL_KEYS`."""
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
    def missing(self) -> tuple[Missing, ...]:
        """Items without a price, over all rungs."""
        return total(self.total(field) for field in FIELDS).missing

    @property
    def sources(self) -> tuple[tuple[str, str], ...]:
        """Sources of the prices, each with its date."""
        prices = (option.price for line in self.lines for option in line.options)
        found = ((price.source, price.date) for price in prices if price is not None)
        return tuple(dict.fromkeys(found))


def bill(served: Iterable[Served], mean_share: float = MEAN_SHARE) -> Bill:
    """Return the cost of models.

    Args:
        served: Every model in every region.
        mean_share: Ratio of mean to peak traffic, and of expected to maximum replicas.

    Raises:
        InputError: The share is not above 0 and at most 1.
    """
    if not 0 < mean_share <= 1:
        raise InputError("mean_share", "must be above 0 and at most 1", mean_share)
    return Bill(tuple(_line(one, mean_share) for one in served))


def _line(one: Served, mean_share: float) -> Line:
    options = tuple(_option(rung, one.region) for rung in one.rungs)
    least, expected = (
        one.mean_at_least(count) for count in (0, math.ceil(one.replicas.max * mean_share))
    )
    first, highest = _replica(options), _highest(options)
    return Line(one, options, expected, first * least, first * expected, highest * one.replicas.max)


def _replica(options: Iterable[Option]) -> Amount:
    """Return a replica's price on the first priced rung; it lists the unpriced rungs before."""
    tried: list[Amount] = []
    left = 1.0
    for option in options:
        tried.append(option.usd_per_hour * (left * option.share))
        if option.price is not None:
            left -= left * option.share
        if not left:
            break
    return total(tried)


def _highest(options: tuple[Option, ...]) -> Amount:
    """Return a replica's price on the most expensive rung that exists at a time of the month."""
    whole = largest(option.usd_per_hour for option in options)
    limited = [option.share for option in options if option.share < 1]
    if not limited:
        return whole
    lasting = largest(option.usd_per_hour for option in options if option.share == 1)
    return whole * max(limited) + lasting * (1 - max(limited))


def share_of_month(rung: Rung) -> float:
    """Return the share of a month in which a rung exists: 1, or less in a short period."""
    period = rung.reservation_period
    return 1.0 if period is None else min(1.0, period.hours / HOURS_PER_MONTH)


@cache
def machine_price(word: str, region: str, provisioning: str, machine_type: str) -> Price | None:
    """Return the price of a machine with at least these accelerators, or None without a price.

    Args:
        word: Accelerator, in the user's word.
        region: Region of the machine.
        provisioning: Provisioning of the machine.
        machine_type: Google's machine type.
    """
    return price(word, region, provisioning, machine_type=machine_type, allow_partial=True)


def _option(rung: Rung, region: str) -> Option:
    found = rung_price(rung, region, allow_partial=True)
    return Option(
        rung.label, region, rung.accelerator, rung.provisioning, found, share_of_month(rung)
    )


def outdated(sources: Iterable[tuple[str, str]], today: date) -> dict[str, list[str]]:
    """Return the sources that are `stale` or `undated`, each once, with their dates.

    Args:
        sources: Sources of prices, each with its date.
        today: Current date.
    """
    found: dict[str, list[str]] = {}
    for source, day in dict.fromkeys(sources):
        if (said := freshness(day, today)) != "fresh":
            found.setdefault(said, []).append(f"{source}, {day}")
    return found


def freshness(day: str, today: date) -> str:
    """Return `fresh`, `stale` (older than 120 days) or `undated` (the source has only a year)."""
    try:
        age = (today - date.fromisoformat(day)).days
    except ValueError:
        return "undated"
    return "stale" if age > STALE_DAYS else "fresh"
