"""Disks for claims of GKE's storage classes, as the Persistent Disk driver provisions them.

Rule: `node.disks`. A claim whose class waits for its first consumer gets a volume in the zone of
the node that the scheduler chose, any other claim at once in a zone that its class allows.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final
from zlib import crc32

from twin.cluster.base.context import ClusterContext
from twin.cluster.base.fields import part, parts
from twin.cluster.base.informer import Informer
from twin.cluster.base.matching import ANYWHERE, Term, term_matches
from twin.wire.kube import JsonObject, KubeError
from twin.world.disk_limits import attach_limit

DRIVER: Final = "pd.csi.storage.gke.io"
ZONE: Final = "topology.gke.io/zone"
_ZONE: Final = "topology.kubernetes.io/zone"
_LOG = logging.getLogger(__name__)
_IDLE_SECONDS: Final = 1.0
_CLAIMS: Final = "/api/v1/persistentvolumeclaims"
_CLASSES: Final = "/apis/storage.k8s.io/v1/storageclasses"
_VOLUMES: Final = "/api/v1/persistentvolumes"
SELECTED: Final = "volume.kubernetes.io/selected-node"
_STORAGE_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
_MULTI_ZONE: Final = "enable-multi-zone-provisioning"
PROVISIONED: Final = "pv.kubernetes.io/provisioned-by"


class DiskProvisioner:
    """Creates a volume for each claim with a chosen node, and removes released volumes."""

    def __init__(self, ctx: ClusterContext) -> None:
        self._ctx = ctx
        self._wake = threading.Event()
        self._claims = Informer(ctx.watches, _CLAIMS, self._wake)
        self._volumes = Informer(ctx.watches, _VOLUMES, self._wake)
        self._classes = Informer(ctx.watches, _CLASSES, self._wake)

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set."""
        self._claims.start(stop)
        self._volumes.start(stop)
        self._classes.start(stop)
        while not stop.is_set():
            try:
                self.scan()
            except KubeError as error:
                _LOG.warning("disks: %s", error)
            self._wake.wait(_IDLE_SECONDS)
            self._wake.clear()

    def scan(self) -> None:
        """Create the volumes that are due, and delete those whose claim is gone.

        What fails for one claim or volume stops no other.
        """
        there = {item["metadata"]["name"] for item in self._volumes.items()}
        classes = {item["metadata"]["name"]: item for item in self._classes.items()}
        for claim in self._claims.items():
            storage = classes.get(class_of(claim), {})
            is_ours = storage.get("provisioner") == DRIVER and not is_refused(claim)
            if is_ours and is_waiting(claim, storage) and volume_name(claim) not in there:
                self._try(partial(self._provision, storage), claim)
        for volume in self._volumes.items():
            is_ours = part(volume, "metadata", "annotations").get(PROVISIONED) == DRIVER
            if is_ours and part(volume, "status").get("phase") == "Released":
                self._try(self._delete, volume)

    def _try(self, work: Callable[[JsonObject], None], item: JsonObject) -> None:
        try:
            work(item)
        except KubeError as error:
            _LOG.warning("disk of %s: %s", item["metadata"]["name"], error)

    def _delete(self, volume: JsonObject) -> None:
        self._ctx.kube.delete(f"{_VOLUMES}/{volume['metadata']['name']}")

    def _provision(self, storage: JsonObject, claim: JsonObject) -> None:
        kube, spec = self._ctx.kube, self._ctx.spec
        if not waits_for_a_pod(storage):
            zones = immediate_zones(claim, storage, spec.zones)
            if zones:
                kube.apply(volume_of(claim, spec.project, zones), manager=DRIVER)
            return
        name = claim["metadata"]["annotations"][SELECTED]
        try:
            node = kube.get(f"/api/v1/nodes/{name}")
        except KubeError as error:
            if error.status != 404:
                raise
            # as the real provisioner does: the scheduler chooses again
            kube.patch(_path(claim), {"metadata": {"annotations": {SELECTED: None}}}, "merge")
            return
        zone = part(node, "metadata", "labels").get(_ZONE, "")
        if zone:
            kube.apply(volume_of(claim, spec.project, (zone,)), manager=DRIVER)


def _path(claim: JsonObject) -> str:
    metadata = claim["metadata"]
    return f"/api/v1/namespaces/{metadata['namespace']}/persistentvolumeclaims/{metadata['name']}"


def is_refused(claim: JsonObject) -> bool:
    """Return whether the driver refuses a claim: a file system for several writing nodes. Pure."""
    spec = claim["spec"]
    is_file_system = spec.get("volumeMode", "Filesystem") == "Filesystem"
    return is_file_system and "ReadWriteMany" in spec["accessModes"]


def class_of(claim: JsonObject) -> str:
    """Return the name of a claim's storage class; empty for none. Pure."""
    annotations = part(claim, "metadata", "annotations")
    return str(annotations.get(_STORAGE_CLASS) or claim["spec"].get("storageClassName") or "")


def waits_for_a_pod(storage: JsonObject | None) -> bool:
    """Return whether claims of a class get their volume with their first pod. Pure.

    Args:
        storage: StorageClass, or None if it does not exist.
    """
    return (storage or {}).get("volumeBindingMode") == "WaitForFirstConsumer"


def is_waiting(claim: JsonObject, storage: JsonObject) -> bool:
    """Return whether it is time to create the volume of a claim. Pure.

    Args:
        claim: Claim.
        storage: Its StorageClass.
    """
    if claim["spec"].get("volumeName") or not class_of(claim):
        return False
    annotations = part(claim, "metadata", "annotations")
    return bool(annotations.get(SELECTED)) or not waits_for_a_pod(storage)


def topologies(storage: JsonObject) -> list[Term]:
    """Return the labels of the nodes that a StorageClass allows, any of these; none allows all.

    Pure.
    """
    return [
        tuple(
            (str(each["key"]), "In", tuple(map(str, each["values"])))
            for each in parts(term, "matchLabelExpressions")
        )
        for term in parts(storage, "allowedTopologies")
    ]


def immediate_zones(
    claim: JsonObject, storage: JsonObject, zones: Sequence[str]
) -> tuple[str, ...]:
    """Return the zones of a volume that is created before its first pod; none if none is allowed.

    One zone by the name of the claim, so that claims are spread, or all for Hyperdisk ML in several
    zones. Pure.

    Args:
        claim: Claim.
        storage: Its StorageClass.
        zones: Zones of the cluster.
    """
    terms = topologies(storage) or [ANYWHERE]
    allowed = [
        zone
        for zone in sorted(zones)
        if any(term_matches(term, {ZONE: zone, _ZONE: zone}) for term in terms)
    ]
    if part(storage, "parameters").get(_MULTI_ZONE) == "true" or not allowed:
        return tuple(allowed)
    return (allowed[crc32(claim["metadata"]["name"].encode()) % len(allowed)],)


def csi_node(node: JsonObject) -> JsonObject:
    """Return the CSINode of a new Node: how many volumes the driver can attach to it. Pure."""
    metadata = node["metadata"]
    name = metadata["name"]
    limit = attach_limit(part(metadata, "labels").get("node.kubernetes.io/instance-type", ""))
    driver = {
        "allocatable": {"count": limit},
        "name": DRIVER,
        "nodeID": str(part(node, "spec").get("providerID", name)).removeprefix("gce://"),
        "topologyKeys": [ZONE],
    }
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": metadata["uid"]}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": name, "ownerReferences": [owner]},
        "spec": {"drivers": [driver]},
    }


def volume_name(claim: JsonObject) -> str:
    """Return the name of a claim's volume, which is also that of the disk. Pure."""
    return f"pvc-{claim['metadata']['uid']}"


def volume_of(claim: JsonObject, project: str, zones: Sequence[str]) -> JsonObject:
    """Return the volume of a claim in one zone or several. Pure."""
    place = zones[0] if len(zones) == 1 else "multi-zone"
    metadata, spec, name = claim["metadata"], claim["spec"], volume_name(claim)
    term = {"key": ZONE, "operator": "In", "values": [*zones]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"annotations": {PROVISIONED: DRIVER}, "name": name},
        "spec": {
            "accessModes": spec["accessModes"],
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "name": metadata["name"],
                "namespace": metadata["namespace"],
                "uid": metadata["uid"],
            },
            "csi": {
                "driver": DRIVER,
                "volumeHandle": f"projects/{project}/zones/{place}/disks/{name}",
            },
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}},
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": class_of(claim),
        },
    }
