"""Number formats of the page, one for each unit."""

import math

from planner.amount import Amount


def dollars(value: Amount | float) -> str:
    """Return an amount without cents: `$698,545`."""
    return f"{_amount(value):$,.0f}"


def cents(value: Amount | float) -> str:
    """Return an amount with cents: `$10.80`."""
    return f"{_amount(value):$,.2f}"


def of_unit(value: Amount | float) -> str:
    """Return a unit cost: `$10.80`, `$0.0063`."""
    return f"{_amount(value):$unit}"


def _amount(value: Amount | float) -> Amount:
    return value if isinstance(value, Amount) else Amount(value)


def part(value: float, most: float) -> str:
    """Return a value as a share of a drawing's width: `12.5%`."""
    return f"{100 * value / most:.3g}%" if most else "0%"


def per_cent(value: float) -> str:
    """Return a share as a percentage: `59 %`."""
    return f"{100 * value:.0f}\N{NO-BREAK SPACE}%"


def time(seconds: float) -> str:
    """Return a duration: `45 s`, `6 min 49 s`."""
    minutes, rest = divmod(math.floor(seconds + 0.5), 60)
    if not minutes:
        return f"{rest} s"
    return f"{minutes} min {rest} s" if rest else f"{minutes} min"


def span(least: int, most: int) -> str:
    """Return a range of numbers: `2 to 12`, or `1` if both ends are equal."""
    return str(least) if least == most else f"{least} to {most}"
