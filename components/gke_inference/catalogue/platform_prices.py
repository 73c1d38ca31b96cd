"""What a platform pays for beside accelerators, from data/platform_prices.csv.

Each row is one item in one region, or in all of them where the region is empty. An item that is not
there has no price: never a guess.
"""

import csv
import re
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

_FILE = Path(__file__).parent / "data" / "platform_prices.csv"
_SIZED = re.compile(r"(?P<family>[a-z0-9]+-[a-z]+)-(?P<vcpus>\d+)")


@dataclass(frozen=True)
class UnitPrice:
    """The price of a unit of something, in US dollars, and how far to trust it."""

    usd: float
    per: str
    """The unit: `hour`, `GiB`, `GiB-month`, `MiB/s-month` or `million`."""
    source: str
    date: str
    """Of the source: a day, or a year where the source gives no more."""
    confidence: str
    """As of `prices.Price`."""


def unit_price(item: str, region: str) -> UnitPrice | None:
    """Returns the price of an item in a region; None where none is known.

    Args:
        item: Such as `cluster-fee` or `gcs-standard`.
        region: Where; a price for all regions counts where the region has none of its own.
    """
    table = _table()
    return table.get((item, region)) or table.get((item, ""))


def machine_price(machine_type: str, region: str, years: int | None = None) -> UnitPrice | None:
    """Returns the hourly price of a machine without accelerators; None where none is known.

    Machines of one shape, such as `e2-standard`, cost as many times more as they have vCPUs: they
    have as many times the memory.

    Args:
        machine_type: Google's name of it.
        region: Where.
        years: Of a commitment; None: on demand.
    """
    term = "" if years is None else f" committed-{years}y"
    if (own := unit_price(machine_type + term, region)) is not None:
        return own
    wanted = _SIZED.fullmatch(machine_type)
    if wanted is None:
        return None
    for item in _machines():
        listed = _SIZED.fullmatch(item)
        if listed is None or listed["family"] != wanted["family"]:
            continue
        if (like := unit_price(item + term, region)) is not None:
            times = int(wanted["vcpus"]) / int(listed["vcpus"])
            return replace(like, usd=like.usd * times, confidence="derived")
    return None


@cache
def _machines() -> tuple[str, ...]:
    return tuple(dict.fromkeys(item for item, _ in _table() if _SIZED.fullmatch(item)))


@cache
def _table() -> dict[tuple[str, str], UnitPrice]:
    with _FILE.open(encoding="utf-8") as file:
        return {
            (row["item"], row["region"]): UnitPrice(
                float(row["usd"]), row["per"], row["source"], row["date"], row["confidence"]
            )
            for row in csv.DictReader(file)
        }
