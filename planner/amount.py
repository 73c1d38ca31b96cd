"""Quantities, and amounts of money with the items whose price is missing or unverified."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

_UNIT: Final = "unit"
UNVERIFIED_MARK: Final = "*"
"""Mark of an amount that rests on unverified prices; a line below its table names the items."""
_MARKED_SHARE: Final = 0.1
"""Share of unverified prices from which an amount is marked. Below it they do not change what a
reader decides, and every total would have a mark."""
HOURS_PER_MONTH = 730
"""A twelfth of a year, as in Google's monthly prices."""


@dataclass(frozen=True)
class Count:
    """A quantity at minimum, expected and maximum load."""

    minimum: float
    expected: float
    maximum: float

    def __add__(self, other: "Count") -> "Count":
        """Return the sum."""
        return Count(
            self.minimum + other.minimum,
            self.expected + other.expected,
            self.maximum + other.maximum,
        )

    def __mul__(self, factor: float) -> "Count":
        """Return the product with `factor`."""
        return Count(self.minimum * factor, self.expected * factor, self.maximum * factor)

    def __str__(self) -> str:
        """Return the text `3/5/12`, or `3` if all are equal."""
        numbers = [f"{one:,.4g}" for one in (self.minimum, self.expected, self.maximum)]
        return numbers[0] if len(set(numbers)) == 1 else "/".join(numbers)


def always(quantity: float) -> Count:
    """Return a quantity that is independent of load."""
    return Count(quantity, quantity, quantity)


class Missing(NamedTuple):
    """Something that costs money, of which the price or the quantity is unknown or a guess."""

    what: str
    region: str
    """Or zone; empty for the whole project."""
    option: str = ""
    """Option of `cost` that states the quantity, where that is what is unknown."""

    def __str__(self) -> str:
        """Return it as text: `nvidia-l4 x1 spot in us-east4`."""
        return f"{self.what} in {self.region}" if self.region else self.what


@dataclass(frozen=True)
class Amount:
    """An amount in dollars, with the items that are not in it and those whose price is a guess.

    Sums and maxima exclude every item that one of their parts excludes, and are unverified if one
    of their parts is.
    """

    value: float
    missing: tuple[Missing, ...] = ()
    """Excluded items, each once, in alphabetical order."""
    unverified: tuple[Missing, ...] = ()
    """Items whose price was not checked against a source, each once, in alphabetical order."""
    guessed: float = 0.0
    """Part of `value` that rests on unverified prices."""

    def __add__(self, other: "Amount") -> "Amount":
        """Return the sum of both."""
        return Amount(
            self.value + other.value,
            _both(self.missing, other.missing),
            _both(self.unverified, other.unverified),
            self.guessed + other.guessed,
        )

    def __mul__(self, factor: float) -> "Amount":
        """Return the amount `factor` times; the factor is not negative."""
        if not factor:
            return NOTHING
        return replace(self, value=self.value * factor, guessed=self.guessed * factor)

    def __truediv__(self, divisor: float) -> "Amount":
        """Return a part of the amount; the divisor is positive."""
        return replace(self, value=self.value / divisor, guessed=self.guessed / divisor)

    def __format__(self, spec: str) -> str:
        """Return the amount as text, with `*` behind it if it rests on unverified prices.

        Args:
            spec: Of a number, such as `,.2f`, or `unit`: to the cent, or with two digits below ten
                cents. A `$` before it is shown before the number.
        """
        number = spec.removeprefix("$")
        shown = _of_unit(self.value) if number == _UNIT else format(self.value, number)
        rests_on_guess = self.guessed > 0 and self.guessed >= _MARKED_SHARE * self.value
        mark = UNVERIFIED_MARK if rests_on_guess else ""
        return f"{'$' if number != spec else ''}{shown}{mark}"

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
    return Amount(
        most,
        _both(*(each.missing for each in every)),
        _both(*(each.unverified for each in every)),
        max((each.guessed for each in every if each.value == most), default=0.0),
    )


def without_price(what: str, region: str) -> Amount:
    """Return the amount for an item without a published price."""
    return Amount(0.0, (Missing(what, region),))


def without_quantity(what: str, region: str, option: str) -> Amount:
    """Return the amount for an item of unknown quantity, which an option of `cost` states."""
    return Amount(0.0, (Missing(what, region, option),))


def priced(usd: float, what: str, region: str, *, is_verified: bool) -> Amount:
    """Return dollars at a price as an amount.

    Args:
        usd: Dollars, in any unit of time.
        what: Item.
        region: Region of the item.
        is_verified: Whether the price was checked against a source.
    """
    if is_verified:
        return Amount(usd)
    return Amount(usd, unverified=(Missing(what, region),), guessed=usd)


def missing_lines(missing: Iterable[Missing]) -> list[str]:
    """Return one line for each item that is not in totals, with its regions and the reason."""
    every = tuple(missing)
    unpriced = [one for one in every if not one.option]
    lines = [
        f"no published price here for {item}: not in these totals"
        for item in missing_items(unpriced)
    ]
    for option in sorted({one.option for one in every if one.option}):
        unknown = [one for one in every if one.option == option]
        lines += [
            f"unknown quantity of {item}: not in these totals without {option}"
            for item in missing_items(unknown)
        ]
    return lines


def price_notes(amounts: Iterable[Amount]) -> list[str]:
    """Return the lines below a table of amounts: items without a price, then unverified prices."""
    every = total(amounts)
    return [*missing_lines(every.missing), *unverified_lines(every.unverified)]


def unverified_lines(unverified: Iterable[Missing]) -> list[str]:
    """Return one line for each item whose price is unverified, with its regions."""
    return [
        f"{UNVERIFIED_MARK} unverified price of {item}: compare it with Google's price list"
        for item in missing_items(unverified)
    ]


def missing_items(missing: Iterable[Missing]) -> list[str]:
    """Return the items, each once, with its regions."""
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
