"""Storage: buckets for weights and caches, and the disk image with the engine images."""

from enum import StrEnum

from pydantic import Field

from gke_inference.settings import Settings
from gke_inference.settings.fields import (
    Cidr,
    KeyName,
    Name,
    ProjectId,
    Zone,
)
from gke_inference.storage.settings import (
    CACHE_DAYS,
    SOFT_DELETE_DAYS,
    ArchiveSettings,
    CacheDays,
    FilestoreGib,
    FilestoreTier,
    LustreGib,
    LustreTier,
    SoftDeleteDays,
)


class ImageCache(Settings):
    """A disk image that contains the engine images, so that new nodes need not pull them."""

    name: Name
    """Name of the disk image."""
    project: ProjectId | None = None
    """Project of an existing image. By default, the platform's project."""
    archive: str | None = Field(default=None, pattern=r"^gs://.+\.tar\.gz$")
    """Archive to create the image from. Without one, the image must exist."""


class Filestore(Settings):
    """A Filestore share in each region, for live adapters and KV cache."""

    tier: FilestoreTier = FilestoreTier.ZONAL
    """`zonal` and `basic-ssd` instances are in the first zone of the region, `regional` instances
    in all zones."""
    capacity_gib: FilestoreGib = 1024
    """Provisioned capacity, billed whether used or not. For `zonal` and `regional`: 1024 to 9984 in
    steps of 256, or 10240 and more in steps of 2560. For `basic-ssd`: 2560 to 65433."""


class Lustre(Settings):
    """A Managed Lustre instance in each region, for files that many nodes read at once."""

    capacity_gib: LustreGib
    """Provisioned capacity, billed whether used or not. The minimum and the step depend on the
    tier: 9000 for 1000 MB/s per TiB, 18000 for 500, 36000 for 250 and 72000 for 125. It can grow
    and never shrink."""
    mb_per_second_per_tib: LustreTier = 1000
    """Performance tier: throughput in MB/s for each TiB of capacity. You cannot change it."""
    services_range: Cidr | None = None
    """Range for private services access, /23 or larger per region. Required where the stack creates
    the network; an existing network must have private services access already."""


class Archive(ArchiveSettings):
    """A bucket for answers that are kept for long."""

    kms_key: KeyName | None = None
    """Cloud KMS key that encrypts the objects, in the bucket's location. Keys for `eu`, `eur5`,
    `eur7`, `eur8` and pairs of European regions are in `europe`; keys for other pairs are in `us`
    or `asia`."""
    expected_gib_per_month: float | None = Field(default=None, gt=0)
    """New data each month in GiB, from which `cost` estimates the price."""


class FuseProfile(StrEnum):
    """Profile of Cloud Storage FUSE on GKE."""

    SERVING = "serving"


class Storage(Settings):
    """Settings for the storage of weights."""

    soft_delete_days: SoftDeleteDays = SOFT_DELETE_DAYS
    """Days during which a deleted object can be restored: 0 (off), or at least 7."""
    versioning: bool = False
    """Whether to keep overwritten objects for 30 days. Versioned buckets have no hierarchical
    namespace and list more slowly. You can set it only at creation."""
    cache_zones: tuple[Zone, ...] = ()
    """Zones with an Anywhere Cache of the model bucket, an SSD-backed read cache."""
    cache_days: CacheDays = CACHE_DAYS
    """Days that data which nobody reads stays in the caches."""
    cache_on_write: bool = False
    """Whether the caches take data when it is written to the bucket, not when it is first read.
    Each upload is then in all of them, which costs extra."""
    archives: dict[Name, Archive] = Field(default_factory=dict[str, Archive])
    """Buckets for answers that are kept for long, by name, for reference in `results` of
    `streams`."""
    fuse_profile: FuseProfile | None = None
    """Profile by which GKE tunes mounts of the model bucket: `serving`. By default, the platform
    sets the options of each mount."""
    filestore: Filestore | None = None
    """Filestore share, in each region of a model that keeps live adapters or KV cache there."""
    lustre: Lustre | None = None
    """Managed Lustre instance in each region of a model that keeps live adapters or KV cache there;
    instead of `filestore`."""
    image_cache: ImageCache | None = None
    """Disk image for nodes whose capacity sets `image_cache`."""
