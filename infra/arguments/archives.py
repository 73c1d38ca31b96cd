"""Arguments for archives: buckets outside the regions."""

from gke_inference.storage.archive_bucket import ArchiveBucketArgs
from infra.plan.names import Names
from infra.stack import Platform


def archive_args(platform: Platform, name: str) -> ArchiveBucketArgs:
    """Return the arguments of an archive's bucket."""
    archive = platform.storage.archives[name]
    args = ArchiveBucketArgs(
        bucket_name=Names(platform).archive(name),
        force_destroy=not platform.protection,
        labels={"env": platform.environment},
        location=archive.location,
        project=platform.project,
        soft_delete_days=archive.soft_delete_days,
        turbo=archive.turbo,
    )
    if archive.nearline_after_days is not None:
        args["nearline_after_days"] = archive.nearline_after_days
    if archive.coldline_after_days is not None:
        args["coldline_after_days"] = archive.coldline_after_days
    if archive.archive_after_days is not None:
        args["archive_after_days"] = archive.archive_after_days
    if archive.delete_after_days is not None:
        args["delete_after_days"] = archive.delete_after_days
    if archive.retention_days is not None:
        args["retention_days"] = archive.retention_days
    if archive.kms_key is not None:
        args["kms_key"] = archive.kms_key
    return args
