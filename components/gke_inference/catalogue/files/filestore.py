"""Filestore tiers: location type and capacity limits.

Source: cloud.google.com/filestore/docs/service-tiers, a stored copy read 2026-11-23.
"""

from dataclasses import dataclass

from gke_inference.catalogue.files.sizes import Sizes

DRIVER = "filestore.csi.storage.gke.io"
SHARE = "shared"
"""Name of the file share on instances that the platform creates."""


@dataclass(frozen=True)
class Tier:
    """A service tier."""

    api_name: str
    """Its name in the API."""
    is_regional: bool
    """Whether it spans the zones of a region instead of one zone."""
    sizes: Sizes
    """Capacities of an instance."""


_SCALED = Sizes(((1024, 9984, 256), (10_240, 102_400, 2560)))
TIERS = {
    "basic-ssd": Tier("BASIC_SSD", is_regional=False, sizes=Sizes(((2560, 65_433, 1),))),
    "regional": Tier("REGIONAL", is_regional=True, sizes=_SCALED),
    "zonal": Tier("ZONAL", is_regional=False, sizes=_SCALED),
}
"""Tiers by their names in a stack."""
