"""Time zones of the IANA database, from the package `tzdata`.

The database of the machine is not used: a stack renders the same objects everywhere.
"""

from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import resources
from typing import Final
from zoneinfo import ZoneInfo

import tzdata

_FIRST: Final = datetime(2026, 1, 1, tzinfo=UTC)
_YEARS: Final = 20
"""Years whose changes of the offset are known to rules; the last offset holds after them."""


@cache
def zone_names() -> frozenset[str]:
    """Return the names of all time zones, such as Europe/Berlin."""
    return frozenset(resources.files(tzdata).joinpath("zones").read_text().split())


@cache
def zone(name: str) -> ZoneInfo:
    """Return a time zone by its name.

    Raises:
        ValueError: The database has no such zone.
    """
    if name not in zone_names():
        raise ValueError(f"no time zone has the name {name!r}")
    file = resources.files(tzdata).joinpath("zoneinfo").joinpath(*name.split("/"))
    with file.open("rb") as data:
        return ZoneInfo.from_file(data, key=name)


@cache
def offsets(name: str) -> tuple[tuple[int, int], ...]:
    """Return the offsets of a time zone from 2026 to 2045.

    Returns:
        Pairs of the time from which an offset holds, in seconds since 1970, and the offset from
        UTC in minutes. The first pair is of 2026-01-01.
    """
    there = zone(name)
    first = int(_FIRST.timestamp())
    last = int(_FIRST.replace(year=_FIRST.year + _YEARS).timestamp())
    found = [(first, _offset(there, first))]
    for day in range(first, last, 24 * 3600):
        low, high = day, day + 24 * 3600
        if _offset(there, high) == found[-1][1]:
            continue
        while high - low > 1:
            middle = (low + high) // 2
            if _offset(there, middle) == found[-1][1]:
                low = middle
            else:
                high = middle
        found.append((high, _offset(there, high)))
    return tuple(found)


def _offset(there: ZoneInfo, seconds: int) -> int:
    offset = datetime.fromtimestamp(seconds, there).utcoffset() or timedelta()
    return int(offset.total_seconds()) // 60
