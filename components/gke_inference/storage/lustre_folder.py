"""A Managed Lustre instance for pods of a cluster, for files that many nodes read at once."""

from typing import NotRequired, TypedDict

import pulumi
from pulumi_gcp import lustre

from gke_inference.base.checked import checked, keep
from gke_inference.base.inputs import name_of, under, user_labels
from gke_inference.catalogue.files.lustre import DRIVER, FILE_SYSTEM

from .rules import check_lustre
from .settings import LustreGib, LustreTier
from .shared_volume import SharedVolume, namespaces_of


class LustreFolderArgs(TypedDict):
    """Inputs of `LustreFolder`."""

    capacity_gib: LustreGib
    """Provisioned capacity in GiB, billed whether used or not. Each tier has its own steps."""
    claim_name: str
    """Name of the claim, for use in a pod's volume."""
    instance_name: str
    """Name of the instance and of the persistent volume."""
    location: str
    """Zone of the instance."""
    mb_per_second_per_tib: LustreTier
    """Performance tier: MB/s for each TiB of capacity. It cannot change."""
    namespace: str
    """Namespace of the claim."""
    network: pulumi.Input[str]
    """VPC network of the nodes, as projects/P/global/networks/N. It needs private services access,
    for example from `PrivateServices`."""
    project: str
    """Project of the instance."""
    kms_key: NotRequired[pulumi.Input[str]]
    """Cloud KMS key of the data, in the instance's region; Lustre's service agent must be allowed
    to use it."""
    labels: NotRequired[dict[str, str]]
    """Additional labels for the instance and its bill."""
    more_namespaces: NotRequired[list[str]]
    """More namespaces that have a claim of that name on the same folder, each once. Their pods can
    write to all of it."""


class LustreFolder(pulumi.ComponentResource):
    """A Managed Lustre instance with a claim that many pods can write to.

    The cluster must have the Managed Lustre CSI driver add-on, and GKE 1.33.2-gke.4655000 or later.
    Pass its Kubernetes provider in `opts`.
    """

    claim_name: pulumi.Output[str]
    """Name of the claim."""
    instance_name: pulumi.Output[str]
    """Name of the instance."""

    def __init__(
        self, name: str, args: LustreFolderArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:LustreFolder", name, {}, opts)
        args = checked(LustreFolderArgs, args)
        claim_name = name_of(args, "claim_name", "namespace")
        instance_name = name_of(args, "instance_name", "compute")
        tier, capacity = args["mb_per_second_per_tib"], args["capacity_gib"]
        keep(check_lustre("capacity_gib", tier, capacity))
        namespaces = namespaces_of(args)
        instance = lustre.Instance(
            f"{name}-instance",
            capacity_gib=str(capacity),
            filesystem=FILE_SYSTEM,
            instance_id=instance_name,
            kms_key=args.get("kms_key"),
            labels=user_labels(args, "storage"),
            location=args["location"],
            network=args["network"],
            per_unit_storage_throughput=str(tier),
            project=args["project"],
            opts=under(self),
        )
        volume = SharedVolume(
            attributes={
                "filesystem": FILE_SYSTEM,
                "ip": instance.mount_point.apply(_address_of),
            },
            claim_name=claim_name,
            driver=DRIVER,
            handle=f"{args['project']}/{args['location']}/{instance_name}",
        )
        self.claim_name = volume.claimed(name, instance_name, namespaces, under(self))
        self.instance_name = instance.instance_id
        self.register_outputs({"claimName": self.claim_name, "instanceName": self.instance_name})


def _address_of(mount_point: str) -> str:
    """Return the IP address in a mount point such as `10.9.0.2@tcp:/shared`."""
    return mount_point.partition("@")[0]
