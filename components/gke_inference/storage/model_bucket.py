"""The bucket from which weights, adapters or compiled programs are read through GCS FUSE."""

from typing import NotRequired, TypedDict

import pulumi
from pulumi_gcp import storage

from gke_inference.base.checked import checked, keep
from gke_inference.base.inputs import name_of, under, user_labels

from .rules import check_soft_delete
from .settings import CACHE_DAYS, SOFT_DELETE_DAYS, CacheDays, SoftDeleteDays

_DAY_SECONDS = 86_400


class ModelBucketArgs(TypedDict):
    """Inputs of `ModelBucket`."""

    bucket_name: str
    """Name of the bucket, globally unique."""
    location: str
    """Region of the bucket. Reads from a cluster in the same region are free."""
    project: pulumi.Input[str]
    """Project of the bucket."""
    cache_days: NotRequired[CacheDays]
    """Days that unread data stays in `cache_zones`. Default: 1."""
    cache_on_write: NotRequired[bool]
    """Whether `cache_zones` take data when it is written, not when it is first read. Default:
    false."""
    cache_zones: NotRequired[list[str]]
    """Zones with an Anywhere Cache, a billed SSD-backed read cache. Default: none."""
    folders: NotRequired[bool]
    """Whether to use a hierarchical namespace, which lists and renames several times faster. You
    can set it only at creation. Default: true."""
    force_destroy: NotRequired[bool]
    """Whether to delete all objects with the bucket. Default: false, a bucket with objects is not
    deleted."""
    kms_key: NotRequired[pulumi.Input[str]]
    """Cloud KMS key for new objects; the storage service agent must be allowed to use it."""
    labels: NotRequired[dict[str, str]]
    """Additional labels for the bucket, which also appear in billing."""
    soft_delete_days: NotRequired[SoftDeleteDays]
    """Days during which a deleted object can be restored: 0 (off), or at least 7. Default: 7."""
    versioning: NotRequired[bool]
    """Whether to keep overwritten objects for 30 days. Not supported with `folders`. Default:
    false."""


class ModelBucket(pulumi.ComponentResource):
    """A regional, non-public bucket with a hierarchical namespace and soft delete."""

    bucket_name: pulumi.Output[str]
    """Global bucket name, without the `gs://` scheme."""
    url: pulumi.Output[str]
    """`gs://NAME`."""

    def __init__(
        self, name: str, args: ModelBucketArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:ModelBucket", name, {}, opts)
        args = checked(ModelBucketArgs, args)
        bucket_name = name_of(args, "bucket_name", "bucket")
        days = args.get("soft_delete_days", SOFT_DELETE_DAYS)
        keep(check_soft_delete("", days))
        has_folders = _has_folders(args)
        zones = _cache_zones(args)
        cache_days = args.get("cache_days", CACHE_DAYS)
        bucket = storage.Bucket(
            name,
            encryption=storage.BucketEncryptionArgsDict(default_kms_key_name=args["kms_key"])
            if "kms_key" in args
            else None,
            force_destroy=args.get("force_destroy", False),
            hierarchical_namespace=storage.BucketHierarchicalNamespaceArgsDict(enabled=True)
            if has_folders
            else None,
            labels=user_labels(args, "storage"),
            lifecycle_rules=_lifecycle(args.get("versioning", False)),
            location=args[
                "location"
            ].upper(),  # as Cloud Storage reports it, to avoid a permanent diff
            name=bucket_name,
            project=args["project"],
            public_access_prevention="enforced",
            soft_delete_policy={"retention_duration_seconds": days * _DAY_SECONDS},
            uniform_bucket_level_access=True,
            versioning=storage.BucketVersioningArgsDict(enabled=True)
            if args.get("versioning", False)
            else None,
            opts=under(self),
        )
        for zone in zones:
            storage.AnywhereCache(
                f"{name}-cache-{zone}",
                bucket=bucket.name,
                ingest_on_write=args.get("cache_on_write", False) or None,
                ttl=f"{cache_days * _DAY_SECONDS}s",
                zone=zone,
                opts=under(self),
            )
        self.bucket_name = bucket.name
        self.url = pulumi.Output.concat("gs://", bucket.name)
        self.register_outputs({"bucketName": self.bucket_name, "url": self.url})


def _has_folders(args: ModelBucketArgs) -> bool:
    versioned = args.get("versioning", False)
    has_folders = args.get("folders", True)
    if versioned and has_folders:
        # cloud.google.com/storage/docs/hns-overview: no object versioning.
        raise pulumi.InputPropertyError(
            "versioning", "must be false with folders, got true; to use it, set 'folders: false'"
        )
    return has_folders


def _cache_zones(args: ModelBucketArgs) -> list[str]:
    zones = sorted(args.get("cache_zones") or [])
    region = args["location"].lower()
    for zone in zones:
        if zone.rpartition("-")[0] != region:
            raise pulumi.InputPropertyError(
                "cacheZones", f"must be zones of {region}, got {zone!r}"
            )
    if len(set(zones)) != len(zones):
        raise pulumi.InputPropertyError("cacheZones", f"must be different zones, got {zones!r}")
    return zones


def _lifecycle(versioned: bool) -> "list[storage.BucketLifecycleRuleArgsDict]":
    """Return lifecycle rules that delete incomplete uploads and old versions."""
    rules: list[storage.BucketLifecycleRuleArgsDict] = [
        {"action": {"type": "AbortIncompleteMultipartUpload"}, "condition": {"age": 7}}
    ]
    if versioned:
        rules.append(
            {"action": {"type": "Delete"}, "condition": {"days_since_noncurrent_time": 30}}
        )
    return rules
