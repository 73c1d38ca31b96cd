"""Regions and zones of Google Cloud (`data/regions.yaml`), and lookups by location."""

import difflib
from functools import cache
from pathlib import Path

import yaml

_FILE = Path(__file__).with_name("data") / "regions.yaml"


@cache
def regions() -> dict[str, tuple[str, ...]]:
    """Return the zones of each region."""
    letters: dict[str, str] = yaml.safe_load(_FILE.read_text())["regions"]
    return {
        name: tuple(f"{name}-{letter}" for letter in str(zones)) for name, zones in letters.items()
    }


def is_region(location: str) -> bool:
    """Return whether a location is a region."""
    return location in regions()


def is_zone(location: str) -> bool:
    """Return whether a location is a zone."""
    region, _, _ = location.rpartition("-")
    return location in regions().get(region, ())


def region_of(location: str) -> str:
    """Return the region of a region or zone."""
    return location if is_region(location) else location.rpartition("-")[0]


def default_zones(location: str) -> tuple[str, ...]:
    """Return the default zones of nodes: three of a region, or the zone itself."""
    return regions()[location][:3] if is_region(location) else (location,)


def suggestion(location: str) -> str:
    """Return `; did you mean …?` for an unknown location, or nothing."""
    names = [*regions(), *(zone for zones in regions().values() for zone in zones)]
    near = difflib.get_close_matches(location, names, n=1, cutoff=0.7)
    return f"; did you mean {near[0]}?" if near else ""
