"""Published round trips between the places of regions, an order of magnitude of the delay."""

from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Final

from gke_inference.catalogue.data_file import read_table

_FILE: Final = Path(__file__).with_name("data") / "round_trips.yaml"


@dataclass(frozen=True)
class RoundTrips:
    """Median round trips of another provider's network (data/round_trips.yaml has the source)."""

    taken: date
    """Last day of the measurement."""
    places: dict[str, str]
    """Places by Google region."""
    milliseconds: dict[tuple[str, str], int]
    """Round trips by the regions of client and server."""

    def between(self, client: str, region: str) -> int | None:
        """Return the round trip in milliseconds: 0 within a region, None if it is unknown."""
        if client == region and client in self.places:
            return 0
        return self.milliseconds.get((client, region))


@cache
def round_trips() -> RoundTrips:
    """Return the table."""
    content = read_table(_FILE)
    places: dict[str, tuple[str, str]] = content["places"]
    names = list(places)
    return RoundTrips(
        taken=content["taken"],
        places={name: place for name, (_, place) in places.items()},
        milliseconds={
            (client, region): found
            for client, row in content["milliseconds"].items()
            for region, found in zip(names, row, strict=True)
            if found is not None
        },
    )
