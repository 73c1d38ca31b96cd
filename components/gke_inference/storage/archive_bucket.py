"""A bucket for answers that are kept for long, in classes that get colder with age."""

from typing import NotRequired, TypedDict

import pulumi
from pulumi_gcp import storage

from gke_inference.base.checked import checked, keep
from gke_inference.base.inputs import name_of, under, user_labels
from gke_inference.catalogue.files.buckets import WORDS, Place, place_of

from .classes import step_rules
from .rules import check_archive, class_steps
from .settings import ArchiveSettings

_DAY_SECONDS = 86_400


class ArchiveBucketArgs(TypedDict):
    """Inputs of `ArchiveBucket`."""

    archive: ArchiveSettings
    """Location of the bucket, and ages of its objects."""
    bucket_name: str
    """Name of the bucket, globally unique."""
    project: pulumi.Input[str]
    """Project of the bucket."""
    force_destroy: NotRequired[bool]
    """Whether to delete all objects with the bucket. Default: false, a bucket with objects is not
    deleted."""
    kms_key: NotRequired[pulumi.Input[str]]
    """Cloud KMS key for new objects, in the bucket's location; the storage service agent must be
    allowed to use it."""
    labels: NotRequired[dict[str, str]]
    """Additional labels for the bucket, which also appear in billing."""


class ArchiveBucket(pulumi.ComponentResource):
    """A non-public bucket with lifecycle rules, retention and soft delete."""

    bucket_name: pulumi.Output[str]
    """Global bucket name, without the `gs://` scheme."""

    def __init__(
        self, name: str, args: ArchiveBucketArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:ArchiveBucket", name, {}, opts)
        args = checked(ArchiveBucketArgs, args)
        archive = args["archive"]
        keep(check_archive("archive", archive))
        place = place_of(archive.location)
        if place is None:  # refused above
            raise pulumi.InputPropertyError("archive.location", f"must be {WORDS}")
        bucket = storage.Bucket(
            name,
            custom_placement_config=_placement(place),
            encryption=storage.BucketEncryptionArgsDict(default_kms_key_name=args["kms_key"])
            if "kms_key" in args
            else None,
            force_destroy=args.get("force_destroy", False),
            labels=user_labels(args, "storage"),
            lifecycle_rules=_lifecycle(archive),
            # as Cloud Storage reports it, to avoid a permanent diff
            location=place.location.upper(),
            name=name_of(args, "bucket_name", "bucket"),
            project=args["project"],
            public_access_prevention="enforced",
            retention_policy=None
            if archive.retention_days is None
            else storage.BucketRetentionPolicyArgsDict(
                retention_period=str(archive.retention_days * _DAY_SECONDS)
            ),
            rpo="ASYNC_TURBO" if archive.turbo else None,
            soft_delete_policy={
                "retention_duration_seconds": archive.soft_delete_days * _DAY_SECONDS
            },
            uniform_bucket_level_access=True,
            opts=under(self),
        )
        self.bucket_name = bucket.name
        self.register_outputs({"bucketName": self.bucket_name})


def _lifecycle(archive: ArchiveSettings) -> "list[storage.BucketLifecycleRuleArgsDict]":
    """Return the lifecycle rules: colder classes in order of age, then deletion."""
    rules: list[storage.BucketLifecycleRuleArgsDict] = [
        {"action": {"type": "AbortIncompleteMultipartUpload"}, "condition": {"age": 7}},
        *step_rules(class_steps(archive)),
    ]
    if archive.delete_after_days is not None:
        rules.append(
            {"action": {"type": "Delete"}, "condition": {"age": archive.delete_after_days}}
        )
    return rules


def _placement(place: Place) -> "storage.BucketCustomPlacementConfigArgsDict | None":
    if not place.regions:
        return None
    return {"data_locations": [region.upper() for region in place.regions]}
