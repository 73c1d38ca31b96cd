"""Weights on Hyperdisk ML, which many nodes read concurrently."""

import re
from typing import NotRequired, TypedDict

import pulumi
import pulumi_kubernetes as kubernetes
from pulumi_gcp import compute

from gke_inference.base.checked import checked
from gke_inference.base.inputs import name_of, under, user_labels
from gke_inference.base.manifests import SKIP_AWAIT

from .settings import DiskGib, DiskThroughput

DRIVER = "pd.csi.storage.gke.io"
STORAGE_CLASS = "hyperdisk-ml"
"""Links volume and claim. No storage class with this name needs to exist."""
ZONE_KEY = "topology.gke.io/zone"

_ZONE = re.compile(r"[a-z]+-[a-z]+\d+-[a-z0-9]+")


class ModelDiskArgs(TypedDict):
    """Inputs of `ModelDisk`."""

    claim_name: str
    """Name of the claim, for use in a model server's weights volume."""
    disk_name: str
    """Name of the persistent volume and of its disks, the same in every zone."""
    namespace: str
    """Namespace of the claim."""
    project: str
    """Project of the disk."""
    size_gib: DiskGib
    """Size in GiB."""
    throughput_mib_per_s: DiskThroughput
    """Read throughput in MiB/s that all nodes share, billed whether used or not."""
    zones: list[str]
    """Zones of the nodes that read it, with one disk each."""
    filled: NotRequired[bool]
    """Whether the weights are on the disk. While false, the disk accepts one writer, the job that
    fills it; set it to true afterwards. Default: true with a `snapshot` or `image`, otherwise
    false."""
    image: NotRequired[pulumi.Input[str]]
    """Disk image with the weights."""
    kms_key: NotRequired[pulumi.Input[str]]
    """Cloud KMS key of the disks; Compute Engine's service agent must be allowed to use it."""
    labels: NotRequired[dict[str, str]]
    """Additional labels for the disks, which also appear in billing."""
    snapshot: NotRequired[pulumi.Input[str]]
    """Snapshot with the weights."""


class ModelDisk(pulumi.ComponentResource):
    """One Hyperdisk ML volume per zone, behind one read-only claim.

    Pods are scheduled in the zones of the disks. Pass the cluster's Kubernetes provider in `opts`.
    """

    claim_name: pulumi.Output[str]
    """Name of the claim."""
    disk_name: pulumi.Output[str]
    """Name of the disks."""

    def __init__(
        self, name: str, args: ModelDiskArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:ModelDisk", name, {}, opts)
        args = checked(ModelDiskArgs, args)
        disk_name = name_of(args, "disk_name", "compute")
        claim_name = name_of(args, "claim_name", "namespace")
        namespace = name_of(args, "namespace", "namespace")
        size_gib = args["size_gib"]
        zones = _zones(args)
        is_filled = _is_filled(args, zones)
        disks = self._build_disks(name, args, disk_name, size_gib, zones, is_filled)
        volume = kubernetes.core.v1.PersistentVolume(
            f"{name}-volume",
            metadata={"name": disk_name},
            spec={
                "access_modes": _modes(is_filled),
                "capacity": {"storage": f"{size_gib}Gi"},
                "claim_ref": {"name": claim_name, "namespace": namespace},
                "csi": {
                    "driver": DRIVER,
                    "fs_type": "ext4",
                    "read_only": is_filled,
                    "volume_handle": _handle(args["project"], zones, disk_name),
                },
                "mount_options": ["read_ahead_kb=4096"],
                "node_affinity": {"required": {"node_selector_terms": [_in_zones(zones)]}},
                "persistent_volume_reclaim_policy": "Retain",
                "storage_class_name": STORAGE_CLASS,
            },
            opts=under(self, depends_on=[*disks]),
        )
        claim = kubernetes.core.v1.PersistentVolumeClaim(
            f"{name}-claim",
            # Where the cluster has a class of that name which binds with the first pod, as GKE's
            # guides make one, a claim that names its volume would be waited for in vain.
            metadata={"annotations": SKIP_AWAIT, "name": claim_name, "namespace": namespace},
            spec={
                "access_modes": _modes(is_filled),
                "resources": {"requests": {"storage": f"{size_gib}Gi"}},
                "storage_class_name": STORAGE_CLASS,
                "volume_name": disk_name,
            },
            opts=under(self, depends_on=[volume]),
        )
        self.claim_name = claim.metadata.apply(lambda _: claim_name)
        self.disk_name = disks[0].name
        self.register_outputs({"claimName": self.claim_name, "diskName": self.disk_name})

    def _build_disks(
        self,
        name: str,
        args: ModelDiskArgs,
        disk_name: str,
        size_gib: int,
        zones: list[str],
        is_filled: bool,
    ) -> "list[compute.Disk]":
        labels = user_labels(args, "storage")
        if len(zones) > 1:
            # How GKE finds the disks of one volume: same name, this label, handle "multi-zone".
            labels["goog-gke-multi-zone"] = "true"
        return [
            compute.Disk(
                f"{name}-{zone}",
                access_mode="READ_ONLY_MANY" if is_filled else "READ_WRITE_SINGLE",
                disk_encryption_key=_encryption(args),
                image=args.get("image"),
                labels=labels,
                name=disk_name,
                project=args["project"],
                provisioned_throughput=args["throughput_mib_per_s"],
                size=size_gib,
                snapshot=args.get("snapshot"),
                type="hyperdisk-ml",
                zone=zone,
                opts=under(self),
            )
            for zone in zones
        ]


def _encryption(args: ModelDiskArgs) -> "compute.DiskDiskEncryptionKeyArgsDict | None":
    return {"kms_key_self_link": args["kms_key"]} if "kms_key" in args else None


def _modes(is_filled: bool) -> list[str]:
    return ["ReadOnlyMany"] if is_filled else ["ReadWriteOnce"]


def _handle(project: str, zones: list[str], disk_name: str) -> str:
    """Return the CSI driver's handle of the disks."""
    place = zones[0] if len(zones) == 1 else "multi-zone"
    return f"projects/{project}/zones/{place}/disks/{disk_name}"


def _in_zones(zones: list[str]) -> "kubernetes.core.v1.NodeSelectorTermArgsDict":
    return {"match_expressions": [{"key": ZONE_KEY, "operator": "In", "values": zones}]}


def _zones(args: ModelDiskArgs) -> list[str]:
    zones = sorted(args["zones"])
    regions = {zone.rpartition("-")[0] for zone in zones}
    wrong = [zone for zone in zones if not _ZONE.fullmatch(zone)]
    if wrong or len(regions) != 1 or len(set(zones)) != len(zones):
        raise pulumi.InputPropertyError(
            "zones", f"must be different zones of one region, got {args['zones']!r}"
        )
    return zones


def _is_filled(args: ModelDiskArgs, zones: list[str]) -> bool:
    sources = [key for key in ("image", "snapshot") if args.get(key) is not None]
    if len(sources) > 1:
        raise pulumi.InputPropertyError(
            "image", "must not be set together with 'snapshot', got both"
        )
    is_filled = args.get("filled", bool(sources))
    if sources and not is_filled:
        raise pulumi.InputPropertyError("filled", f"must be true with '{sources[0]}', got false")
    if not is_filled and len(zones) > 1:
        raise pulumi.InputPropertyError(
            "zones", f"must be one zone while the disk is filled, got {len(zones)}"
        )
    return is_filled
