"""Approximate distances between regions, by their names."""

from collections.abc import Iterable
from typing import Final

_FROM: Final = {
    "africa": ("africa", "europe", "me", "asia", "us", "northamerica", "southamerica", "australia"),
    "asia": ("asia", "australia", "me", "us", "northamerica", "europe", "africa", "southamerica"),
    "australia": (
        *("australia", "asia", "us", "northamerica", "me", "europe", "southamerica", "africa"),
    ),
    "europe": ("europe", "africa", "me", "us", "northamerica", "asia", "southamerica", "australia"),
    "me": ("me", "europe", "asia", "africa", "us", "northamerica", "southamerica", "australia"),
    "northamerica": (
        *("northamerica", "us", "southamerica", "europe", "asia", "africa", "me", "australia"),
    ),
    "southamerica": (
        *("southamerica", "us", "northamerica", "europe", "africa", "me", "asia", "australia"),
    ),
    "us": ("us", "northamerica", "southamerica", "europe", "asia", "africa", "me", "australia"),
}
"""Parts of the world by nearness, the first word of the names of regions. Assumed."""


def by_nearness(client: str, regions: Iterable[str]) -> list[str]:
    """Return regions, nearest to a client's region first, or unchanged if it is unknown."""
    order = _FROM.get(client.partition("-")[0], ())

    def distance(region: str) -> tuple[bool, int, bool]:
        part = region.partition("-")[0]
        # us-east and us-west are on one continent but not near each other
        is_beyond = part == client.partition("-")[0] and _side(region) != _side(client)
        return region != client, order.index(part) if part in order else len(order), is_beyond

    return sorted(regions, key=distance)


def _side(region: str) -> str:
    """Return `west` of `us-west1`."""
    return region.rpartition("-")[2].rstrip("0123456789")
