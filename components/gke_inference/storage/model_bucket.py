"""The bucket model weights, adapters or compiled programs are read from through GCS FUSE."""

from typing import NotRequired, TypedDict

import pulumi
from pulumi_gcp import storage

from gke_inference.base.inputs import name_of, under, user_labels, whole

_DAY_SECONDS = 86_400


class ModelBucketArgs(TypedDict):
    """Inputs of `ModelBucket`."""

    bucket_name: str
    """Name of the bucket, unique in the world."""
    location: str
    """Region of the bucket; reads are free from a cluster in the same region."""
    project: pulumi.Input[str]
    """Project of the bucket."""
    cache_days: NotRequired[int]
    """Days unread data stays in `cache_zones`, 1 to 7. Default 1."""
    cache_zones: NotRequired[list[str]]
    """Zones with an Anywhere Cache, an SSD copy of what is read there. Default none; it costs."""
    folders: NotRequired[bool]
    """Real folders (hierarchical namespace), several times faster to list and to rename.
    Default yes; it can only be chosen when the bucket is made."""
    force_destroy: NotRequired[bool]
    """Delete every object with the bucket. Default no: a bucket that is not empty stays."""
    kms_key: NotRequired[pulumi.Input[str]]
    """Cloud KMS key for new objects; the storage service agent must be allowed to use it."""
    labels: NotRequired[dict[str, str]]
    """More labels for the bucket and its bills."""
    soft_delete_days: NotRequired[int]
    """Days a deleted object can be restored: 0 (off) or 7 to 90. Default 7."""
    versioning: NotRequired[bool]
    """Keep what is overwritten, 30 days of it. Default no; a bucket with folders cannot."""


class ModelBucket(pulumi.ComponentResource):
    """A regional bucket with real folders and recoverable deletes, closed to the public."""

    bucket_name: pulumi.Output[str]
    """Global bucket name, without the `gs://` scheme."""
    url: pulumi.Output[str]
    """`gs://NAME`."""

    def __init__(
        self, name: str, args: ModelBucketArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:ModelBucket", name, {}, opts)
        bucket_name = name_of(args, "bucket_name", "bucket")
        days = _soft_delete_days(args)
        has_folders = _has_folders(args)
        zones = _cache_zones(args)
        cache_days = whole(args, "cache_days", 1, least=1, most=7)
        bucket = storage.Bucket(
            name,
            encryption={"default_kms_key_name": args["kms_key"]} if "kms_key" in args else None,
            force_destroy=args.get("force_destroy", False),
            hierarchical_namespace={"enabled": True} if has_folders else None,
            labels=user_labels(args, "storage"),
            lifecycle_rules=_lifecycle(args.get("versioning", False)),
            location=args["location"].upper(),  # as Cloud Storage reports it: no endless diff
            name=bucket_name,
            project=args["project"],
            public_access_prevention="enforced",
            soft_delete_policy={"retention_duration_seconds": days * _DAY_SECONDS},
            uniform_bucket_level_access=True,
            versioning={"enabled": True} if args.get("versioning", False) else None,
            opts=under(self),
        )
        for zone in zones:
            storage.AnywhereCache(
                f"{name}-cache-{zone}",
                bucket=bucket.name,
                ttl=f"{cache_days * _DAY_SECONDS}s",
                zone=zone,
                opts=under(self),
            )
        self.bucket_name = bucket.name
        self.url = pulumi.Output.concat("gs://", bucket.name)
        self.register_outputs({"bucketName": self.bucket_name, "url": self.url})


def _soft_delete_days(args: ModelBucketArgs) -> int:
    days = whole(args, "soft_delete_days", 7, least=0, most=90)
    if days != 0 and days < 7:
        raise pulumi.InputPropertyError("softDeleteDays", f"must be 0 or 7 to 90, got {days}")
    return days


def _has_folders(args: ModelBucketArgs) -> bool:
    versioned = args.get("versioning", False)
    has_folders = args.get("folders", True)
    if versioned and has_folders:
        # cloud.google.com/storage/docs/hns-overview: no object versioning.
        raise pulumi.InputPropertyError(
            "versioning", "must be left out with folders, got true; say 'folders: false' to have it"
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
    """Returns the rules that remove what nobody can read: half uploads and old versions."""
    rules: list[storage.BucketLifecycleRuleArgsDict] = [
        {"action": {"type": "AbortIncompleteMultipartUpload"}, "condition": {"age": 7}}
    ]
    if versioned:
        rules.append(
            {"action": {"type": "Delete"}, "condition": {"days_since_noncurrent_time": 30}}
        )
    return rules
