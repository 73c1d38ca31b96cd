"""A disk image with container images, so that new nodes need not pull them."""

from typing import NotRequired, TypedDict

import pulumi
from pulumi_gcp import compute

from gke_inference.base.checked import checked
from gke_inference.base.inputs import name_of, under, user_labels


class NodeImageCacheArgs(TypedDict):
    """Inputs of `NodeImageCache`."""

    image_name: str
    """Name of the disk image."""
    project: pulumi.Input[str]
    """Project of the disk image."""
    labels: NotRequired[dict[str, str]]
    """Additional labels for the image."""
    raw_disk: NotRequired[str]
    """`gs://BUCKET/OBJECT.tar.gz` to create the image from."""
    source_disk: NotRequired[pulumi.Input[str]]
    """Disk to create the image from, as created by gke-disk-image-builder. Without this and
    `raw_disk`, the image must exist and is only referenced."""
    storage_region: NotRequired[str]
    """Region that stores the image. Default: the multi-region nearest to its source."""


class NodeImageCache(pulumi.ComponentResource):
    """A secondary boot disk for nodes: containers start in seconds, without a registry."""

    disk_image: pulumi.Output[str]
    """`projects/P/global/images/NAME`, for `image_cache` of pools and compute classes."""

    def __init__(
        self, name: str, args: NodeImageCacheArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:NodeImageCache", name, {}, opts)
        args = checked(NodeImageCacheArgs, args)
        image_name = name_of(args, "image_name", "compute")
        raw_disk = _raw_disk(args)
        named: pulumi.Input[str] = image_name
        if raw_disk is not None or "source_disk" in args:
            region = args.get("storage_region")
            image = compute.Image(
                name,
                description="Container images for new nodes.",
                labels=user_labels(args, "images"),
                name=image_name,
                project=args["project"],
                raw_disk=None
                if raw_disk is None
                else compute.ImageRawDiskArgsDict(source=raw_disk),
                source_disk=args.get("source_disk"),
                storage_locations=[region] if region is not None else None,
                opts=under(self),
            )
            named = image.name
        self.disk_image = pulumi.Output.concat(
            "projects/", args["project"], "/global/images/", named
        )
        self.register_outputs({"diskImage": self.disk_image})


def _raw_disk(args: NodeImageCacheArgs) -> str | None:
    source = args.get("raw_disk")
    if source is None:
        return None
    if "source_disk" in args:
        raise pulumi.InputPropertyError(
            "rawDisk", "must not be set together with 'sourceDisk', got both"
        )
    if not source.startswith("gs://") or not source.endswith(".tar.gz"):
        raise pulumi.InputPropertyError("rawDisk", f"must be gs://BUCKET/X.tar.gz, got {source!r}")
    return f"https://storage.googleapis.com/{source.removeprefix('gs://')}"
