"""A Filestore share for pods of a cluster, for files that change within seconds."""

from typing import NotRequired, TypedDict

import pulumi
from pulumi_gcp import filestore

from gke_inference.base.checked import checked, keep
from gke_inference.base.inputs import name_of, under, user_labels
from gke_inference.catalogue.files.filestore import DRIVER, SHARE, TIERS

from .rules import check_filestore
from .settings import FilestoreGib, FilestoreTier
from .shared_volume import SharedVolume, namespaces_of

_MOUNT_OPTIONS = ("lookupcache=positive",)
"""Without it, a node that asked for a file too early can go on without it for up to a minute: NFS
also caches that a name does not exist (nfs(5), `lookupcache` and `acdirmax`)."""


class SharedFolderArgs(TypedDict):
    """Inputs of `SharedFolder`."""

    capacity_gib: FilestoreGib
    """Provisioned capacity in GiB, billed whether used or not. Each tier has its own range."""
    claim_name: str
    """Name of the claim, for use in a pod's volume."""
    instance_name: str
    """Name of the Filestore instance and of the persistent volume."""
    location: str
    """Zone of the instance, or its region for tier `regional`."""
    namespace: str
    """Namespace of the claim."""
    network: pulumi.Input[str]
    """VPC network of the nodes: a name, or projects/P/global/networks/N."""
    project: str
    """Project of the instance, which must be that of the network."""
    tier: FilestoreTier
    """Tier of the instance."""
    deletion_protection: NotRequired[bool]
    """Whether Google refuses to delete the instance. Default: false."""
    kms_key: NotRequired[pulumi.Input[str]]
    """Cloud KMS key of the data; Filestore's service agent must be allowed to use it."""
    more_namespaces: NotRequired[list[str]]
    """More namespaces that have a claim of that name on the same folder, each once. Their pods can
    write to all of it."""
    labels: NotRequired[dict[str, str]]
    """Additional labels for the instance and its bill."""


class SharedFolder(pulumi.ComponentResource):
    """A Filestore instance with a claim that many pods can write to, in one or more namespaces.

    The cluster must have the Filestore CSI driver add-on. Pass its Kubernetes provider in `opts`.
    """

    claim_name: pulumi.Output[str]
    """Name of the claim."""
    instance_name: pulumi.Output[str]
    """Name of the instance."""

    def __init__(
        self, name: str, args: SharedFolderArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:SharedFolder", name, {}, opts)
        args = checked(SharedFolderArgs, args)
        claim_name = name_of(args, "claim_name", "namespace")
        instance_name = name_of(args, "instance_name", "compute")
        capacity = args["capacity_gib"]
        keep(check_filestore("capacity_gib", args["tier"], capacity))
        namespaces = namespaces_of(args)
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
            tier=TIERS[args["tier"].value].api_name,
            opts=under(self),
        )
        volume = SharedVolume(
            attributes={"ip": _address_of(instance), "volume": SHARE},
            claim_name=claim_name,
            driver=DRIVER,
            handle=f"modeInstance/{args['location']}/{instance_name}/{SHARE}",
            mount_options=_MOUNT_OPTIONS,
        )
        self.claim_name = volume.claimed(name, instance_name, namespaces, under(self))
        self.instance_name = instance.name
        self.register_outputs({"claimName": self.claim_name, "instanceName": self.instance_name})


def _address_of(instance: filestore.Instance) -> pulumi.Output[str]:
    """Return the IP address of an instance.

    A preview has no IP addresses yet, so values that only Google knows stay unknown.
    """
    known = pulumi.Output.all(instance.networks, instance.create_time)
    return known.apply(lambda both: str(both[0][0]["ip_addresses"][0]))
