"""Amounts of money of which a part may be unknown, so that the true amount is that or more."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from gke_inference.catalogue.prices import Price

AT_LEAST: Final = "≥ "
"""Stands before an amount that lacks a price, or a part of one."""
_UNIT: Final = "unit"


@dataclass(frozen=True)
class Amount:
    """Dollars, known exactly or from below.

    Sums, multiples and maxima of amounts are known from below as soon as one of their parts is.
    """

    value: float
    at_least: bool = False
    """Whether a part is missing, so that the true amount may be higher."""

    def __add__(self, other: "Amount") -> "Amount":
        """Return the sum of both."""
        return Amount(self.value + other.value, self.at_least or other.at_least)

    def __mul__(self, factor: float) -> "Amount":
        """Return the amount `factor` times; the factor is not negative."""
        return Amount(self.value * factor, self.at_least)

    def __truediv__(self, divisor: float) -> "Amount":
        """Return a part of the amount; the divisor is positive."""
        return Amount(self.value / divisor, self.at_least)

    def __format__(self, spec: str) -> str:
        """Return the amount with `≥ ` before it where it is known from below: `≥ $1,234`."""
        return self.text(spec)

    def text(self, spec: str, at_least: str = AT_LEAST) -> str:
        """Return the amount as text.

        Args:
            spec: Of a number, such as `,.2f`, or `unit`: to the cent, or with two digits below ten
                cents. A `$` before it is shown before the number.
            at_least: Shown first where the amount is known from below.
        """
        number = spec.removeprefix("$")
        sign = "$" if number != spec else ""
        shown = _of_unit(self.value) if number == _UNIT else format(self.value, number)
        return f"{at_least if self.at_least else ''}{sign}{shown}"


NOTHING: Final = Amount(0.0)
UNKNOWN: Final = Amount(0.0, at_least=True)
"""Of what has no price."""


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
    """Return the sum of some amounts; nothing where there are none."""
    return sum(amounts, start=NOTHING)


def largest(amounts: Iterable[Amount]) -> Amount:
    """Return the largest of some amounts; what is known from below may be larger than it shows."""
    every = list(amounts)
    return Amount(max(each.value for each in every), any(each.at_least for each in every))


def amount_of(price: Price | None) -> Amount | None:
    """Return a price as an amount; None where there is none."""
    return None if price is None else Amount(price.usd_per_hour, price.is_lower_bound)


def _of_unit(usd: float) -> str:
    if not 0 < usd < 0.1:
        return f"{usd:,.2f}"
    return f"{usd:.{1 - math.floor(math.log10(usd))}f}"
