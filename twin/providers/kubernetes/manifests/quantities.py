"""Equivalent Kubernetes quantities, such as `0.5` and `500m`."""

import re
from decimal import Decimal, InvalidOperation
from typing import Any

_QUANTITY = re.compile(
    r"([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?\Z"
)
_FACTORS = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    **{suffix: Decimal(10) ** (3 * power) for power, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)},
}


def amount(value: Any) -> Decimal | None:
    """Return the amount of a quantity, or None if the value is not a quantity."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    match = _QUANTITY.match(str(value))
    if match is None:
        return None
    number, suffix = match.groups()
    try:
        return Decimal(number) * _FACTORS.get(suffix or "", Decimal(1))
    except InvalidOperation:
        return None


def same(left: Any, right: Any) -> bool:
    """Return whether two values are equal, compared as quantities if both are."""
    if left == right:
        return True
    first, second = amount(left), amount(right)
    return first is not None and first == second
