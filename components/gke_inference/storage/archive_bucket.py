"""A bucket for answers that are kept for long, in classes that get colder with age."""

from typing import NotRequired, TypedDict

import pulumi
from pulumi_gcp import storage

from gke_inference.base.inputs import name_of, under, user_labels, whole
from gke_inference.catalogue.files.buckets import WORDS, Place, place_of

from .classes import LONGEST_DAYS, class_rules

_DAY_SECONDS = 86_400


class ArchiveBucketArgs(TypedDict):
    """Inputs of `ArchiveBucket`."""

    bucket_name: str
    """Name of the bucket, globally unique."""
    location: str
    """Location, which cannot change: a region, a multi-region (`us`), a predefined dual-region
    (`nam4`), or two regions as REGION+REGION."""
    project: pulumi.Input[str]
    """Project of the bucket."""
    archive_after_days: NotRequired[int]
    """Age at which objects move to Archive storage. Default: never."""
    coldline_after_days: NotRequired[int]
    """Age at which objects move to Coldline storage. Default: never."""
    delete_after_days: NotRequired[int]
    """Age at which objects are deleted. Default: never."""
    force_destroy: NotRequired[bool]
    """Whether to delete all objects with the bucket. Default: false, a bucket with objects is not
    deleted."""
    kms_key: NotRequired[pulumi.Input[str]]
    """Cloud KMS key for new objects, in the bucket's location; the storage service agent must be
    allowed to use it."""
    labels: NotRequired[dict[str, str]]
    """Additional labels for the bucket, which also appear in billing."""
    nearline_after_days: NotRequired[int]
    """Age at which objects move to Nearline storage. Default: never."""
    retention_days: NotRequired[int]
    """Age before which no object can be deleted or replaced. The policy is not locked. Default:
    none."""
    soft_delete_days: NotRequired[int]
    """Days during which a deleted object can be restored: 0 (off) or 7 to 90. Default: 7."""
    turbo: NotRequired[bool]
    """Whether to replicate within 15 minutes, for dual-regions only; billed per GiB written.
    Default: false."""


class ArchiveBucket(pulumi.ComponentResource):
    """A non-public bucket with lifecycle rules, retention and soft delete."""

    bucket_name: pulumi.Output[str]
    """Global bucket name, without the `gs://` scheme."""

    def __init__(
        self, name: str, args: ArchiveBucketArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:ArchiveBucket", name, {}, opts)
        place = place_of(args["location"])
        if place is None:
            rule = f"must be {WORDS}, got {args['location']!r}"
            raise pulumi.InputPropertyError("location", rule)
        rules, retention = _lifecycle(args), _days(args, "retention_days")
        bucket = storage.Bucket(
            name,
            custom_placement_config=_placement(place),
            encryption={"default_kms_key_name": args["kms_key"]} if "kms_key" in args else None,
            force_destroy=args.get("force_destroy", False),
            labels=user_labels(args, "storage"),
            lifecycle_rules=rules,
            # as Cloud Storage reports it, to avoid a permanent diff
            location=place.location.upper(),
            name=name_of(args, "bucket_name", "bucket"),
            project=args["project"],
            public_access_prevention="enforced",
            retention_policy=None
            if retention is None
            else {"retention_period": str(retention * _DAY_SECONDS)},
            rpo=_rpo(args, place),
            soft_delete_policy={"retention_duration_seconds": _soft_delete(args) * _DAY_SECONDS},
            uniform_bucket_level_access=True,
            opts=under(self),
        )
        self.bucket_name = bucket.name
        self.register_outputs({"bucketName": self.bucket_name})


def _days(args: ArchiveBucketArgs, field: str) -> int | None:
    if args.get(field) is None:
        return None
    return whole(args, field, 0, least=1, most=LONGEST_DAYS)


def _soft_delete(args: ArchiveBucketArgs) -> int:
    days = whole(args, "soft_delete_days", 7, least=0, most=90)
    if 0 < days < 7:
        raise pulumi.InputPropertyError("softDeleteDays", f"must be 0 or 7 to 90, got {days}")
    return days


def _lifecycle(args: ArchiveBucketArgs) -> "list[storage.BucketLifecycleRuleArgsDict]":
    """Return the lifecycle rules: colder classes in order of age, then deletion."""
    rules: list[storage.BucketLifecycleRuleArgsDict] = [
        {"action": {"type": "AbortIncompleteMultipartUpload"}, "condition": {"age": 7}}
    ]
    colder, last = class_rules(args, LONGEST_DAYS)
    rules += colder
    delete = _days(args, "delete_after_days")
    if delete is not None:
        if delete <= last:
            rule = f"must be above {last}, got {delete}"
            raise pulumi.InputPropertyError("deleteAfterDays", rule)
        rules.append({"action": {"type": "Delete"}, "condition": {"age": delete}})
    return rules


def _placement(place: Place) -> "storage.BucketCustomPlacementConfigArgsDict | None":
    if not place.regions:
        return None
    return {"data_locations": [region.upper() for region in place.regions]}


def _rpo(args: ArchiveBucketArgs, place: Place) -> str | None:
    if not args.get("turbo", False):
        return None
    if place.kind != "dual-region":
        rule = f"must not be set with a {place.kind}, got true"
        raise pulumi.InputPropertyError("turbo", rule)
    return "ASYNC_TURBO"
