"""A bucket as a claim that pods of a namespace can mount."""

from typing import NotRequired, TypedDict

import pulumi
import pulumi_kubernetes as kubernetes
from pulumi_gcp import storage

from gke_inference.base.checked import checked
from gke_inference.base.inputs import name_of, under
from gke_inference.base.manifests import SKIP_AWAIT
from gke_inference.catalogue.fuse import (
    DRIVER,
    NO_CACHES,
    SCANNER_ROLES,
    mount_options,
    profile_class,
)

from .settings import MountProfile

STORAGE_CLASS = "gcs-fuse"
"""Links volume and claim. No storage class with this name needs to exist."""

_NOMINAL_SIZE = "1Ti"  # required by Kubernetes, ignored for buckets


class FuseVolumeArgs(TypedDict):
    """Inputs of `FuseVolume`."""

    bucket_name: pulumi.Input[str]
    """The bucket: `ModelBucket.bucket_name`."""
    claim_name: str
    """Name of the claim, for use in `persistentVolumeClaim.claimName` of a pod."""
    namespace: str
    """Namespace of the claim."""
    folder: NotRequired[str]
    """Folder of the bucket to mount as the root. Default: the whole bucket."""
    profile: NotRequired[MountProfile]
    """Profile by which GKE tunes the mount. It needs GKE 1.35.1-gke.1616000 and `project_number`.
    Default: the platform's own mount options."""
    project_number: NotRequired[str]
    """Number of the cluster's project. With a profile, its GKE service agent gets roles on the
    bucket, whose size it must know."""
    writable: NotRequired[bool]
    """Whether pods may write, which rules out long-lived caches. Default: false."""


class FuseVolume(pulumi.ComponentResource):
    """A volume and claim for a bucket, with mount options tuned for weights.

    Pods that mount it need the annotations of `fuse.pod_annotations` and a service account that may
    read the bucket (`WorkloadIdentity`). Pass the cluster's Kubernetes provider in `opts`.
    """

    claim_name: pulumi.Output[str]
    """Name of the claim."""
    volume_name: pulumi.Output[str]
    """Name of the persistent volume."""

    def __init__(
        self, name: str, args: FuseVolumeArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:FuseVolume", name, {}, opts)
        args = checked(FuseVolumeArgs, args)
        claim_name = name_of(args, "claim_name", "namespace")
        namespace = name_of(args, "namespace", "namespace")
        is_read_only = not args.get("writable", False)
        modes = ["ReadOnlyMany"] if is_read_only else ["ReadWriteMany"]
        volume_name = f"{namespace}-{claim_name}"
        storage_class, attributes, options = _tuning(args, is_read_only)
        scans = self._build_scans(name, args)
        volume = kubernetes.core.v1.PersistentVolume(
            name,
            metadata={"name": volume_name},
            spec={
                "access_modes": modes,
                "capacity": {"storage": _NOMINAL_SIZE},
                # Only this claim may bind the volume.
                "claim_ref": {"name": claim_name, "namespace": namespace},
                "csi": {
                    "driver": DRIVER,
                    "read_only": is_read_only,
                    "volume_attributes": attributes,
                    "volume_handle": args["bucket_name"],
                },
                "mount_options": options,
                "persistent_volume_reclaim_policy": "Retain",
                "storage_class_name": storage_class,
            },
            opts=under(self, depends_on=scans),
        )
        claim = kubernetes.core.v1.PersistentVolumeClaim(
            f"{name}-claim",
            metadata={
                # claims of profiles bind with the first pod: waiting for one would be in vain
                "annotations": SKIP_AWAIT if "profile" in args else None,
                "name": claim_name,
                "namespace": namespace,
            },
            spec={
                "access_modes": modes,
                "resources": {"requests": {"storage": _NOMINAL_SIZE}},
                "storage_class_name": storage_class,
                "volume_name": volume_name,
            },
            opts=under(self, depends_on=[volume]),
        )
        self.claim_name = claim.metadata.apply(lambda _: claim_name)
        self.volume_name = volume.metadata.apply(lambda _: volume_name)
        self.register_outputs({"claimName": self.claim_name, "volumeName": self.volume_name})

    def _build_scans(self, name: str, args: FuseVolumeArgs) -> list[pulumi.Resource]:
        """Let GKE's service agent read the size of a bucket whose mounts GKE tunes."""
        if "profile" not in args:
            return []
        number = args.get("project_number")
        if number is None:
            raise pulumi.InputPropertyError("projectNumber", "must be set with 'profile', got none")
        agent = f"service-{number}@container-engine-robot.iam.gserviceaccount.com"
        return [
            storage.BucketIAMMember(
                f"{name}-{role.rpartition('.')[2]}",
                bucket=args["bucket_name"],
                member=f"serviceAccount:{agent}",
                role=role,
                opts=under(self),
            )
            for role in SCANNER_ROLES
        ]


def _tuning(
    args: FuseVolumeArgs, is_read_only: bool
) -> tuple[str, dict[str, str] | None, list[str] | None]:
    """Return the storage class, volume attributes and mount options of the volume."""
    folder = args.get("folder")
    if "profile" not in args:
        return STORAGE_CLASS, None, mount_options(folder=folder, is_read_only=is_read_only)
    profile = args["profile"]
    options = None if folder is None else [f"only-dir:{folder.strip('/')}"]
    attributes = NO_CACHES if profile is MountProfile.SERVING else None
    return profile_class(profile.value), attributes, options
