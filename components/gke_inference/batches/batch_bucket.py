"""The bucket for batch files and answers, which are deleted automatically."""

from typing import NotRequired, TypedDict

import pulumi

from gke_inference.base.checked import checked
from gke_inference.base.inputs import name_of, under, user_labels
from gke_inference.storage.expiring_bucket import expiring_bucket

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
        bucket = expiring_bucket(
            name,
            name_of(args, "bucket_name", "bucket"),
            force_destroy=args.get("force_destroy", False),
            kms_key=args.get("kms_key"),
            labels=user_labels(args, "batches"),
            location=args["location"],
            opts=under(self),
            project=args["project"],
            rules=[
                {"action": {"type": "Delete"}, "condition": {"age": days}},
                {"action": {"type": "AbortIncompleteMultipartUpload"}, "condition": {"age": 1}},
            ],
        )
        self.bucket_name = bucket.name
        self.register_outputs({"bucketName": self.bucket_name})
