"""Amounts of money, each with the items that it excludes for lack of a published price."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from gke_inference.catalogue.prices import Price

_UNIT: Final = "unit"


class Missing(NamedTuple):
    """Something that costs money and has no published price."""

    what: str
    region: str
    """Or zone; empty for the whole project."""

    def __str__(self) -> str:
        """Return it as text: `nvidia-l4 x1 spot in us-east4`."""
        return f"{self.what} in {self.region}" if self.region else self.what


@dataclass(frozen=True)
class Amount:
    """An amount in dollars, with the items that have no price.

    Sums and maxima exclude every item that one of their parts excludes.
    """

    value: float
    missing: tuple[Missing, ...] = ()
    """Excluded items, each once, in alphabetical order."""

    def __add__(self, other: "Amount") -> "Amount":
        """Return the sum of both."""
        return Amount(self.value + other.value, _both(self.missing, other.missing))

    def __mul__(self, factor: float) -> "Amount":
        """Return the amount `factor` times; the factor is not negative."""
        return Amount(self.value * factor, self.missing) if factor else NOTHING

    def __truediv__(self, divisor: float) -> "Amount":
        """Return a part of the amount; the divisor is positive."""
        return Amount(self.value / divisor, self.missing)

    def __format__(self, spec: str) -> str:
        """Return the amount as text.

        Args:
            spec: Of a number, such as `,.2f`, or `unit`: to the cent, or with two digits below ten
                cents. A `$` before it is shown before the number.
        """
        number = spec.removeprefix("$")
        shown = _of_unit(self.value) if number == _UNIT else format(self.value, number)
        return f"{'$' if number != spec else ''}{shown}"

    @property
    def is_unknown(self) -> bool:
        """Whether no part of it has a price."""
        return bool(self.missing) and not self.value


NOTHING: Final = Amount(0.0)


@dataclass(frozen=True)
class AmountRange:
    """An estimated amount with the ends of its 80 % interval."""

    value: Amount
    low: Amount
    high: Amount

    def as_json(self) -> dict[str, float]:
        """Return the three numbers, in dollars."""
        return {"value": self.value.value, "low": self.low.value, "high": self.high.value}


def total(amounts: Iterable[Amount]) -> Amount:
    """Return the sum of amounts; 0 if there are none."""
    return sum(amounts, start=NOTHING)


def largest(amounts: Iterable[Amount]) -> Amount:
    """Return the largest amount; unpriced items could be larger and are listed as missing."""
    every = list(amounts)
    most = max((each.value for each in every), default=0.0)
    return Amount(most, _both(*(each.missing for each in every)))


def without_price(what: str, region: str) -> Amount:
    """Return the amount for an item without a published price."""
    return Amount(0.0, (Missing(what, region),))


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
    return Amount(price.usd_per_hour, lacks)


def missing_lines(missing: Iterable[Missing]) -> list[str]:
    """Return one line for each item without a price, with its regions."""
    return [
        f"no published price here for {item}: not in these totals"
        for item in missing_items(missing)
    ]


def missing_items(missing: Iterable[Missing]) -> list[str]:
    """Return the items without a price, each once, with its regions."""
    regions: dict[str, list[str]] = {}
    for one in sorted(set(missing)):
        regions.setdefault(one.what, []).append(one.region)
    return [_placed(what, places) for what, places in regions.items()]


def _placed(what: str, places: list[str]) -> str:
    named = [place for place in places if place]
    return f"{what} in {', '.join(named)}" if named else what


def _both(*missing: tuple[Missing, ...]) -> tuple[Missing, ...]:
    return tuple(sorted({each for group in missing for each in group}))


def _of_unit(usd: float) -> str:
    if not 0 < usd < 0.1:
        return f"{usd:,.2f}"
    return f"{usd:.{1 - math.floor(math.log10(usd))}f}"
