"""Settings of storage, which stacks and the components of buckets, disks and folders share."""

from typing import Annotated, Final, Literal

from pydantic import Field

from gke_inference.settings import Settings, Word

SoftDeleteDays = Annotated[int, Field(ge=0, le=90)]
"""Days during which a deleted object can be restored: 0 (off), or at least 7."""
SOFT_DELETE_DAYS: Final = 7
CacheDays = Annotated[int, Field(ge=1, le=7)]
"""Days that data which nobody reads stays in an Anywhere Cache."""
CACHE_DAYS: Final = 1
Age = Annotated[int, Field(ge=1, le=36_500)]
"""Age of an object in days."""
DiskGib = Annotated[int, Field(ge=4, le=65_536)]
"""Size of a Hyperdisk ML."""
DiskThroughput = Annotated[int, Field(ge=400, le=1_200_000)]
"""Throughput of a Hyperdisk ML in MiB/s."""
FilestoreGib = Annotated[int, Field(ge=1024, le=102_400)]
"""Capacity of a Filestore instance of any tier."""
LustreGib = Annotated[int, Field(ge=9000, le=40_032_000)]
"""Capacity of a Managed Lustre instance of any tier."""
LustreTier = Literal[125, 250, 500, 1000]
"""Performance tier of Managed Lustre: MB/s for each TiB of capacity."""


class FilestoreTier(Word):
    """Tier of a Filestore instance."""

    ZONAL = "zonal"
    REGIONAL = "regional"
    BASIC_SSD = "basic-ssd"


class MountProfile(Word):
    """Profile by which GKE tunes the mounts of a bucket."""

    CHECKPOINTING = "checkpointing"
    SERVING = "serving"
    TRAINING = "training"


class ColderAges(Settings):
    """Ages at which objects move to colder storage classes. By default, they stay."""

    nearline_after_days: Age | None = None
    """Age at which objects move to Nearline storage, billed for at least 30 days."""
    coldline_after_days: Age | None = None
    """Age at which objects move to Coldline storage, billed for at least 90 days."""
    archive_after_days: Age | None = None
    """Age at which objects move to Archive storage, billed for at least 365 days."""


class ArchiveSettings(ColderAges):
    """A bucket for answers that are kept for long."""

    location: str = Field(max_length=60)
    """Location, which you cannot change: a region; `us`, `eu` or `asia`; a predefined dual-region
    such as `nam4`; or two regions of one multi-region as REGION+REGION."""
    delete_after_days: Age | None = None
    """Age at which objects are deleted. By default, they are kept."""
    retention_days: Age | None = None
    """Age before which nobody can delete or replace an object. The policy is not locked: an
    administrator of the bucket can remove it."""
    soft_delete_days: SoftDeleteDays = SOFT_DELETE_DAYS
    """Days during which a deleted object can be restored: 0 (off), or at least 7."""
    turbo: bool = False
    """Whether to replicate within 15 minutes, for dual-regions; billed per GiB written."""
