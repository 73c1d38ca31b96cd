"""Parts of a platform's cost beside the accelerators, each from one price and three quantities."""

from dataclasses import dataclass
from typing import Final

from gke_inference.catalogue.platform_prices import UnitPrice, unit_price
from planner.amount import Amount, without_price
from planner.choice.cost import HOURS_PER_MONTH, Line

ACCELERATORS: Final = "accelerators"
CLUSTER: Final = "cluster"
NETWORK: Final = "network"
STORAGE: Final = "storage"
OBSERVABILITY: Final = "observability"
GROUPS: Final = (ACCELERATORS, CLUSTER, NETWORK, STORAGE, OBSERVABILITY)
"""The groups of a stack's cost, in the order in which they are shown."""

LABELLED: Final = (ACCELERATORS, CLUSTER, STORAGE)
"""The groups that carry the labels of a stack in a bill."""


@dataclass(frozen=True)
class Count:
    """How much of something there is at minimum, expected, and at maximum."""

    minimum: float
    expected: float
    maximum: float

    def __add__(self, other: "Count") -> "Count":
        """Return both together."""
        return Count(
            self.minimum + other.minimum,
            self.expected + other.expected,
            self.maximum + other.maximum,
        )

    def __mul__(self, factor: float) -> "Count":
        """Return as much `factor` times."""
        return Count(self.minimum * factor, self.expected * factor, self.maximum * factor)

    def __str__(self) -> str:
        """Return it as text: `3/5/12`, or `3` where all are one."""
        numbers = [f"{one:,.4g}" for one in (self.minimum, self.expected, self.maximum)]
        return numbers[0] if len(set(numbers)) == 1 else "/".join(numbers)


def always(quantity: float) -> Count:
    """Return a quantity that does not follow the load."""
    return Count(quantity, quantity, quantity)


def replicas(line: Line) -> Count:
    """Return the replicas that a line of a bill is for."""
    return Count(line.served.minimum, line.expected_replicas, line.served.maximum)


@dataclass(frozen=True)
class Part:
    """One part of the cost; dollars an hour."""

    group: str
    """One of `GROUPS`, never the accelerators."""
    what: str
    region: str
    """Empty: of the whole project."""
    quantity: str
    """How much is paid for, with its unit."""
    minimum: Amount
    expected: Amount
    maximum: Amount
    source: tuple[str, str] | None
    """Of the price, with its date; None where none is published."""


def part(
    group: str, what: str, region: str, price: UnitPrice | None, count: Count, *, unit: str = ""
) -> Part:
    """Return a part of a cost.

    Args:
        group: One of `GROUPS`.
        what: It is of, as people say it.
        region: Where it is paid for; empty: in the whole project.
        price: Of an hour, or of a month, of one; None: none is published.
        count: How many there are; of what is paid for by the month, how many a month.
        unit: Of the quantity, where it is shown.
    """
    each = without_price(what, region) if price is None else Amount(_per_hour(price))
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


def hourly(item: str, region: str, what: str) -> Amount:
    """Return an hour of an item of `gke_inference.catalogue.platform_prices`."""
    price = unit_price(item, region)
    return without_price(what, region) if price is None else Amount(_per_hour(price))


def listed(group: str, what: str, region: str, item: str, count: Count, *, unit: str = "") -> Part:
    """Return a part at the price of an item of `gke_inference.catalogue.platform_prices`."""
    return part(group, what, region, unit_price(item, region), count, unit=unit)


def _per_hour(price: UnitPrice) -> float:
    return price.usd if price.per == "hour" else price.usd / HOURS_PER_MONTH
