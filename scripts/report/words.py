"""How the page says numbers: one rule for each unit."""

import math

from planner.amount import Amount

_AT_LEAST = "≥\N{NO-BREAK SPACE}"


def dollars(value: Amount | float) -> str:
    """Return an amount without cents: `$698,545`, or `≥ $698,545` where a price is missing."""
    return _amount(value).text("$,.0f", _AT_LEAST)


def cents(value: Amount | float) -> str:
    """Return an amount with cents: `$10.80`, or `≥ $10.80` where a price is missing."""
    return _amount(value).text("$,.2f", _AT_LEAST)


def of_unit(value: Amount | float) -> str:
    """Return what a unit costs: `$10.80`, `$0.0063`, or `≥ $0.0063` where a price is missing."""
    return _amount(value).text("$unit", _AT_LEAST)


def _amount(value: Amount | float) -> Amount:
    return value if isinstance(value, Amount) else Amount(value)


def part(value: float, most: float) -> str:
    """Return how much of the width of a picture a value takes: `12.5%`."""
    return f"{100 * value / most:.3g}%" if most else "0%"


def per_cent(value: float) -> str:
    """Return a share as a reader says it: `59 %`."""
    return f"{100 * value:.0f}\N{NO-BREAK SPACE}%"


def time(seconds: float) -> str:
    """Return a time as a reader says it: `45 s`, `6 min 49 s`."""
    minutes, rest = divmod(math.floor(seconds + 0.5), 60)
    if not minutes:
        return f"{rest} s"
    return f"{minutes} min {rest} s" if rest else f"{minutes} min"


def span(least: int, most: int) -> str:
    """Return a range of numbers as a reader says it: `2 to 12`, or `1` where both are one."""
    return str(least) if least == most else f"{least} to {most}"
