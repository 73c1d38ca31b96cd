"""A bucket whose objects expire and cannot be restored."""

from collections.abc import Sequence
from typing import Any

import pulumi
from pulumi_gcp import storage


def expiring_bucket(
    name: str,
    bucket_name: str,
    *,
    force_destroy: bool,
    kms_key: pulumi.Input[str] | None,
    labels: dict[str, str],
    location: str,
    opts: pulumi.ResourceOptions,
    project: pulumi.Input[str],
    rules: Sequence[Any],
) -> storage.Bucket:
    """Return a bucket that is never public and keeps nothing that was deleted.

    Args:
        name: Logical name.
        bucket_name: Global name of the bucket.
        force_destroy: Whether to delete all objects with the bucket.
        kms_key: Cloud KMS key for new objects; None for Google's.
        labels: Labels of the bucket.
        location: Region of the bucket.
        opts: Options of a child.
        project: Project of the bucket.
        rules: Lifecycle rules.
    """
    return storage.Bucket(
        name,
        encryption=None
        if kms_key is None
        else storage.BucketEncryptionArgsDict(default_kms_key_name=kms_key),
        force_destroy=force_destroy,
        labels=labels,
        lifecycle_rules=rules,
        location=location.upper(),  # as Cloud Storage reports it, to avoid a permanent diff
        name=bucket_name,
        project=project,
        public_access_prevention="enforced",
        soft_delete_policy={"retention_duration_seconds": 0},
        uniform_bucket_level_access=True,
        opts=opts,
    )
