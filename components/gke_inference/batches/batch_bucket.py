"""The bucket for batch files and answers, which are deleted automatically."""

from typing import NotRequired, TypedDict

import pulumi
from pulumi_gcp import storage

from gke_inference.base.checked import checked
from gke_inference.base.inputs import name_of, under, user_labels

from .settings import RETENTION_DAYS, RetentionDays


class BatchBucketArgs(TypedDict):
    """Inputs of `BatchBucket`."""

    bucket_name: str
    """Name of the bucket, globally unique."""
    location: str
    """Region of the bucket, which is that of the service."""
    project: pulumi.Input[str]
    """Project of the bucket."""
    force_destroy: NotRequired[bool]
    """Whether to delete all objects with the bucket. Default: false, a bucket with objects is not
    deleted."""
    kms_key: NotRequired[pulumi.Input[str]]
    """Cloud KMS key for new objects; the storage service agent must be allowed to use it."""
    labels: NotRequired[dict[str, str]]
    """Additional labels for the bucket, which also appear in billing."""
    retention_days: NotRequired[RetentionDays]
    """Days that files and batches are retained. Default: 30."""


class BatchBucket(pulumi.ComponentResource):
    """A regional, non-public bucket whose objects are permanently deleted after some days.

    Deleted objects cannot be restored: prompts and answers are gone when their owner deletes them.
    """

    bucket_name: pulumi.Output[str]
    """Global bucket name, without the `gs://` scheme."""

    def __init__(
        self, name: str, args: BatchBucketArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:BatchBucket", name, {}, opts)
        args = checked(BatchBucketArgs, args)
        days = args.get("retention_days", RETENTION_DAYS)
        bucket = storage.Bucket(
            name,
            encryption={"default_kms_key_name": args["kms_key"]} if "kms_key" in args else None,
            force_destroy=args.get("force_destroy", False),
            labels=user_labels(args, "batches"),
            lifecycle_rules=[
                {"action": {"type": "Delete"}, "condition": {"age": days}},
                {"action": {"type": "AbortIncompleteMultipartUpload"}, "condition": {"age": 1}},
            ],
            location=args[
                "location"
            ].upper(),  # as Cloud Storage reports it, to avoid a permanent diff
            name=name_of(args, "bucket_name", "bucket"),
            project=args["project"],
            public_access_prevention="enforced",
            soft_delete_policy={"retention_duration_seconds": 0},
            uniform_bucket_level_access=True,
            opts=under(self),
        )
        self.bucket_name = bucket.name
        self.register_outputs({"bucketName": self.bucket_name})
