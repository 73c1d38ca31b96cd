"""Parts of a cost besides accelerators: each has one price and three quantities."""

from dataclasses import dataclass
from typing import Final

from gke_inference.catalogue.platform_prices import UnitPrice, unit_price
from planner.amount import (
    HOURS_PER_MONTH,
    Amount,
    Count,
    always,
    priced,
    without_price,
    without_quantity,
)

ACCELERATORS: Final = "accelerators"
CLUSTER: Final = "cluster"
NETWORK: Final = "network"
STORAGE: Final = "storage"
OBSERVABILITY: Final = "observability"
GROUPS: Final = (ACCELERATORS, CLUSTER, NETWORK, STORAGE, OBSERVABILITY)
"""Cost groups of a stack, in display order."""

LABELLED: Final = (ACCELERATORS, CLUSTER, STORAGE)
"""Groups that carry the labels of a stack in a bill."""


@dataclass(frozen=True)
class Part:
    """One cost part, in US dollars per hour."""

    group: str
    """One of `GROUPS`. Accelerators are parts only where nothing runs on them."""
    what: str
    region: str
    """Empty for the whole project."""
    quantity: str
    """Billed quantity, with its unit."""
    minimum: Amount
    expected: Amount
    maximum: Amount
    source: tuple[str, str] | None
    """Source of the price, with its date, or None if it has no amount."""


def part(
    group: str, what: str, region: str, price: UnitPrice | None, count: Count, *, unit: str = ""
) -> Part:
    """Return a part of a cost.

    Args:
        group: One of `GROUPS`.
        what: Description of the item.
        region: Region that it is billed in, or empty for the whole project.
        price: Hourly or monthly price of one item, or None if not published.
        count: Number of items; for monthly prices, per month.
        unit: Unit of the displayed quantity.
    """
    each = _each(price, what, region)
    return Part(
        group,
        what,
        region,
        f"{count} {unit}".strip(),
        each * count.minimum,
        each * count.expected,
        each * count.maximum,
        None if price is None else (price.source, price.date),
    )


def unmeasured(
    group: str, what: str, region: str, option: str, count: float = 1, *, unit: str = ""
) -> Part:
    """Return a part whose quantity an option of `cost` would state.

    Args:
        group: One of `GROUPS`.
        what: Description of the item.
        region: Region that it is billed in.
        option: The option.
        count: Number to display, such as of readers.
        unit: Unit of that number.
    """
    amount = without_quantity(what, region, option)
    quantity = f"{always(count)} {unit}".strip()
    return Part(group, what, region, quantity, amount, amount, amount, None)


def hourly(item: str, region: str, what: str) -> Amount:
    """Return the hourly price of an item of `gke_inference.catalogue.platform_prices`."""
    return _each(unit_price(item, region), what, region)


def _each(price: UnitPrice | None, what: str, region: str) -> Amount:
    """Return the hourly price of one item."""
    if price is None:
        return without_price(what, region)
    return priced(_per_hour(price), what, region, is_verified=price.is_verified)


def listed(group: str, what: str, region: str, item: str, count: Count, *, unit: str = "") -> Part:
    """Return a part with the price of an item of `gke_inference.catalogue.platform_prices`."""
    return part(group, what, region, unit_price(item, region), count, unit=unit)


def _per_hour(price: UnitPrice) -> float:
    return price.usd if price.per == "hour" else price.usd / HOURS_PER_MONTH


@dataclass(frozen=True)
class Nodes:
    """Nodes of one type in a region."""

    machine_type: str
    disk_type: str
    """Boot disk type."""
    disk_gib: int
    count: Count
