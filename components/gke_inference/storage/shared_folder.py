"""A folder on Filestore that pods of a cluster share, for files that change within seconds."""

from typing import NotRequired, TypedDict

import pulumi
import pulumi_kubernetes as kubernetes
from pulumi_gcp import filestore

from gke_inference.base.inputs import name_of, one_of, under, user_labels, whole
from gke_inference.base.manifests import SKIP_AWAIT
from gke_inference.catalogue.filestore import DRIVER, SHARE, TIERS

STORAGE_CLASS = "gke-inference-shared"
"""Joins volume and claim; no storage class of that name has to exist."""
_NOMINAL = {"storage": "1Ti"}
"""Size of volume and claim, which NFS does not enforce. That of a claim without a real storage
class may never change, and the instance's may."""


class SharedFolderArgs(TypedDict):
    """Inputs of `SharedFolder`."""

    capacity_gib: int
    """Capacity in GiB, which is paid whether it is used or not; each tier has its own range."""
    claim_name: str
    """Name of the claim, what the volume of a pod says."""
    instance_name: str
    """Name of the Filestore instance and of the persistent volume."""
    location: str
    """Zone of the instance; for tier `regional`, its region."""
    namespace: str
    """Namespace of the claim."""
    network: pulumi.Input[str]
    """VPC network of the nodes: its name, or projects/P/global/networks/N."""
    project: str
    """Project of the instance, which must be that of the network."""
    tier: str
    """`zonal`, `regional` or `basic-ssd`."""
    deletion_protection: NotRequired[bool]
    """Whether Google refuses to delete the instance. Default false."""
    kms_key: NotRequired[pulumi.Input[str]]
    """Cloud KMS key of the data; Filestore's service agent must be allowed to use it."""
    labels: NotRequired[dict[str, str]]
    """More labels for the instance and its bill."""


class SharedFolder(pulumi.ComponentResource):
    """A Filestore instance behind a claim that many pods may write.

    The cluster must have the add-on of the Filestore CSI driver. Give its Kubernetes provider in
    `opts`.
    """

    claim_name: pulumi.Output[str]
    """Name of the claim."""
    instance_name: pulumi.Output[str]
    """Name of the instance."""

    def __init__(
        self, name: str, args: SharedFolderArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:SharedFolder", name, {}, opts)
        claim_name = name_of(args, "claim_name", "namespace")
        instance_name = name_of(args, "instance_name", "compute")
        tier = TIERS[one_of(args, "tier", tuple(TIERS))]
        capacity = whole(args, "capacity_gib", 0, least=1, most=102_400)
        if not tier.allows(capacity):
            raise pulumi.InputPropertyError("capacity_gib", f"must be {tier.words}, got {capacity}")
        instance = filestore.Instance(
            f"{name}-instance",
            deletion_protection_enabled=bool(args.get("deletion_protection", False)) or None,
            file_shares={"capacity_gb": capacity, "name": SHARE},
            kms_key_name=args.get("kms_key"),
            labels=user_labels(args, "storage"),
            location=args["location"],
            name=instance_name,
            networks=[{"modes": ["MODE_IPV4"], "network": args["network"]}],
            project=args["project"],
            tier=tier.api_name,
            opts=under(self),
        )
        volume = kubernetes.core.v1.PersistentVolume(
            f"{name}-volume",
            metadata={"name": instance_name},
            spec={
                "access_modes": ["ReadWriteMany"],
                "capacity": _NOMINAL,
                "claim_ref": {"name": claim_name, "namespace": args["namespace"]},
                "csi": {
                    "driver": DRIVER,
                    "volume_attributes": {
                        "ip": _address_of(instance),
                        "volume": SHARE,
                    },
                    "volume_handle": f"modeInstance/{args['location']}/{instance_name}/{SHARE}",
                },
                "persistent_volume_reclaim_policy": "Retain",
                "storage_class_name": STORAGE_CLASS,
            },
            opts=under(self),
        )
        claim = kubernetes.core.v1.PersistentVolumeClaim(
            f"{name}-claim",
            metadata={
                "annotations": SKIP_AWAIT,
                "name": claim_name,
                "namespace": args["namespace"],
            },
            spec={
                "access_modes": ["ReadWriteMany"],
                "resources": {"requests": _NOMINAL},
                "storage_class_name": STORAGE_CLASS,
                "volume_name": instance_name,
            },
            opts=under(self, depends_on=[volume]),
        )
        self.claim_name = claim.metadata.apply(lambda _: claim_name)
        self.instance_name = instance.name
        self.register_outputs({"claimName": self.claim_name, "instanceName": self.instance_name})


def _address_of(instance: filestore.Instance) -> pulumi.Output[str]:
    """Returns the address of an instance.

    A preview knows the network without its addresses, so what only Google knows is waited for.
    """
    known = pulumi.Output.all(instance.networks, instance.create_time)
    return known.apply(lambda both: str(both[0][0]["ip_addresses"][0]))
