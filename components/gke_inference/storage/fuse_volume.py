"""A bucket as a claim that pods of a namespace mount."""

from typing import NotRequired, TypedDict

import pulumi
import pulumi_kubernetes as kubernetes

from gke_inference.base.inputs import name_of, under
from gke_inference.catalogue.fuse import DRIVER, mount_options

STORAGE_CLASS = "gcs-fuse"
"""Joins volume and claim; no storage class of that name has to exist."""

_NOMINAL_SIZE = "1Ti"  # Kubernetes wants a size; a bucket has none


class FuseVolumeArgs(TypedDict):
    """Inputs of `FuseVolume`."""

    bucket_name: pulumi.Input[str]
    """The bucket: `ModelBucket.bucket_name`."""
    claim_name: str
    """Name of the claim, what `persistentVolumeClaim.claimName` of a pod says."""
    namespace: str
    """Namespace of the claim."""
    folder: NotRequired[str]
    """Folder of the bucket that becomes the root. Default: the whole bucket."""
    writable: NotRequired[bool]
    """Let pods write, without long-lived caches. Default no."""


class FuseVolume(pulumi.ComponentResource):
    """A volume and claim over a bucket, with mount options tuned for weights.

    A pod that mounts it needs the annotations `fuse.POD_ANNOTATIONS` and a service account that may
    read the bucket (`WorkloadIdentity`). Give the cluster's Kubernetes provider in `opts`.
    """

    claim_name: pulumi.Output[str]
    """Name of the claim."""
    volume_name: pulumi.Output[str]
    """Name of the persistent volume."""

    def __init__(
        self, name: str, args: FuseVolumeArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:FuseVolume", name, {}, opts)
        claim_name = name_of(args, "claim_name", "namespace")
        namespace = name_of(args, "namespace", "namespace")
        is_read_only = not args.get("writable", False)
        modes = ["ReadOnlyMany"] if is_read_only else ["ReadWriteMany"]
        volume_name = f"{namespace}-{claim_name}"
        volume = kubernetes.core.v1.PersistentVolume(
            name,
            metadata={"name": volume_name},
            spec={
                "access_modes": modes,
                "capacity": {"storage": _NOMINAL_SIZE},
                # Only this claim may take the volume.
                "claim_ref": {"name": claim_name, "namespace": namespace},
                "csi": {
                    "driver": DRIVER,
                    "read_only": is_read_only,
                    "volume_handle": args["bucket_name"],
                },
                "mount_options": mount_options(
                    folder=args.get("folder"), is_read_only=is_read_only
                ),
                "persistent_volume_reclaim_policy": "Retain",
                "storage_class_name": STORAGE_CLASS,
            },
            opts=under(self),
        )
        claim = kubernetes.core.v1.PersistentVolumeClaim(
            f"{name}-claim",
            metadata={"name": claim_name, "namespace": namespace},
            spec={
                "access_modes": modes,
                "resources": {"requests": {"storage": _NOMINAL_SIZE}},
                "storage_class_name": STORAGE_CLASS,
                "volume_name": volume_name,
            },
            opts=under(self, depends_on=[volume]),
        )
        self.claim_name = claim.metadata.apply(lambda _: claim_name)
        self.volume_name = volume.metadata.apply(lambda _: volume_name)
        self.register_outputs({"claimName": self.claim_name, "volumeName": self.volume_name})
