"""Kubernetes quantities as numbers. Pure."""

import re
from collections.abc import Mapping
from decimal import Decimal

Amounts = dict[str, float]
"""Resource name to amount, in the resource's base unit (cores, bytes, devices)."""

_QUANTITY = re.compile(r"^([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)([a-zA-Z]*)$")
_FACTORS: dict[str, Decimal] = {
    "": Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
}


def quantity(text: object) -> float:
    """Return a Kubernetes quantity as a number.

    Raises:
        ValueError: the text is not a quantity.
    """
    match = _QUANTITY.match(str(text))
    if match is None or match[2] not in _FACTORS:
        raise ValueError(f"not a quantity: {text!r}")
    return float(Decimal(match[1]) * _FACTORS[match[2]])


def amounts(resources: Mapping[str, object]) -> Amounts:
    """Return a resource list as numbers."""
    return {name: quantity(value) for name, value in resources.items()}
