"""The bucket from which builds without a connected repository read their sources."""

from typing import NotRequired, TypedDict

import pulumi
from pulumi_gcp import storage

from gke_inference.base.checked import checked
from gke_inference.base.inputs import name_of, under, user_labels
from gke_inference.storage.expiring_bucket import expiring_bucket

_KEPT_DAYS = 7


class ImageSourcesArgs(TypedDict):
    """Inputs of `ImageSources`."""

    bucket_name: str
    """Global name of the bucket."""
    location: str
    """Region of the bucket."""
    project: str
    """Project of the bucket."""
    reader: pulumi.Input[str]
    """Member that builds: `ImageBuilder.member`. It may read the sources."""
    kms_key: NotRequired[pulumi.Input[str]]
    """Cloud KMS key of the sources; the Cloud Storage service agent must be allowed to use it."""
    labels: NotRequired[dict[str, str]]
    """Additional labels for the bucket, which also appear in billing."""


class ImageSources(pulumi.ComponentResource):
    """A bucket for archives of sources, which are deleted after a week.

    `gke-inference images build` uploads a commit of this repository and starts Cloud Build with it,
    so that no source repository needs to be connected.
    """

    bucket_name: pulumi.Output[str]
    """Name of the bucket."""

    def __init__(
        self, name: str, args: ImageSourcesArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:ImageSources", name, {}, opts)
        args = checked(ImageSourcesArgs, args)
        bucket = expiring_bucket(
            name,
            name_of(args, "bucket_name", "bucket"),
            force_destroy=True,  # every archive can be made again from its commit
            kms_key=args.get("kms_key"),
            labels=user_labels(args, "images"),
            location=args["location"],
            opts=under(self),
            project=args["project"],
            rules=[{"action": {"type": "Delete"}, "condition": {"age": _KEPT_DAYS}}],
        )
        storage.BucketIAMMember(
            f"{name}-reader",
            bucket=bucket.name,
            member=args["reader"],
            role="roles/storage.objectViewer",
            opts=under(self),
        )
        self.bucket_name = bucket.name
        self.register_outputs({"bucketName": self.bucket_name})
