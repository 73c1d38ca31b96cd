"""Tiers of Filestore: where an instance is, and which capacities it may have.

Source: cloud.google.com/filestore/docs/service-tiers, a stored copy read 2026-11-23.
"""

from dataclasses import dataclass

DRIVER = "filestore.csi.storage.gke.io"
SHARE = "shared"
"""Name of the file share of an instance that the platform makes."""


@dataclass(frozen=True)
class Tier:
    """A service tier."""

    api_name: str
    """Its name in the API."""
    is_regional: bool
    """Whether it is in the zones of a region, not in one zone."""
    capacities_gib: tuple[tuple[int, int, int], ...]
    """Ranges of capacity: least, most, and the step from the least."""

    def allows(self, capacity_gib: int) -> bool:
        """Return whether an instance may have a capacity, in GiB."""
        return any(
            least <= capacity_gib <= most and (capacity_gib - least) % step == 0
            for least, most, step in self.capacities_gib
        )

    @property
    def words(self) -> str:
        """Return the capacities in words."""
        return ", or ".join(
            f"{least} to {most}" + (f" in steps of {step}" if step > 1 else "")
            for least, most, step in self.capacities_gib
        )


_SCALED = ((1024, 9984, 256), (10_240, 102_400, 2560))
TIERS = {
    "basic-ssd": Tier("BASIC_SSD", is_regional=False, capacities_gib=((2560, 65_433, 1),)),
    "regional": Tier("REGIONAL", is_regional=True, capacities_gib=_SCALED),
    "zonal": Tier("ZONAL", is_regional=False, capacities_gib=_SCALED),
}
"""By their names in a stack."""
