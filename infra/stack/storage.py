"""Storage: the buckets of weights and caches, and the disk of engine images."""

from enum import StrEnum

from pydantic import Field

from infra.stack.base.fields import Name, ProjectId, StackModel, Zone


class ImageCache(StackModel):
    """A disk image that holds the engine images, so that a new node pulls none."""

    name: Name
    """Name of the disk image."""
    project: ProjectId | None = None
    """Project of an image that exists; the platform's own project by default."""
    archive: str | None = Field(default=None, pattern=r"^gs://.+\.tar\.gz$")
    """Archive the image is made from; without one the image must exist."""


class FilestoreTier(StrEnum):
    """Tier of a Filestore instance."""

    ZONAL = "zonal"
    REGIONAL = "regional"
    BASIC_SSD = "basic-ssd"


class Filestore(StackModel):
    """A folder on Filestore in each region, for adapters that change within seconds."""

    tier: FilestoreTier = FilestoreTier.ZONAL
    """`zonal` and `basic-ssd` are in the first zone of the region; `regional` in all of them."""
    capacity_gib: int = Field(default=1024, ge=1024, le=102_400)
    """Capacity, which is paid whether it is used or not: for `zonal` and `regional` 1024 to 9984 in
    steps of 256, or 10240 and more in steps of 2560; for `basic-ssd` 2560 to 65433."""


class Storage(StackModel):
    """How weights are kept."""

    soft_delete_days: int = Field(default=7, ge=0, le=90)
    """Days a deleted object can be restored: 0 (off) or 7 to 90."""
    versioning: bool = False
    """Keeps what is overwritten for 30 days; such buckets have no real folders and list slower. It
    is chosen when the buckets are made."""
    cache_zones: tuple[Zone, ...] = ()
    """Zones with an Anywhere Cache of the model bucket: an SSD copy of what is read there."""
    filestore: Filestore | None = None
    """Folder on Filestore in each region of a model whose live adapters are on it."""
    image_cache: ImageCache | None = None
    """Disk image of the nodes whose capacity asks for it."""
