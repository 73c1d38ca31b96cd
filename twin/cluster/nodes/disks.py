"""Disks for claims of GKE's storage classes, as the Persistent Disk driver provisions them.

Rule: `node.disks`. A claim whose class waits for its first consumer gets a volume in the zone of
the node that the scheduler chose. The volume has no files: no pod with such a claim runs a process.
"""

import logging
import threading
from collections.abc import Callable
from typing import Final

from twin.cluster.base.context import ClusterContext
from twin.cluster.base.fields import part
from twin.cluster.base.informer import Informer
from twin.wire.kube import JsonObject, KubeError

DRIVER: Final = "pd.csi.storage.gke.io"
ZONE: Final = "topology.gke.io/zone"
_LOG = logging.getLogger(__name__)
_IDLE_SECONDS: Final = 1.0
_CLAIMS: Final = "/api/v1/persistentvolumeclaims"
_CLASSES: Final = "/apis/storage.k8s.io/v1/storageclasses"
_VOLUMES: Final = "/api/v1/persistentvolumes"
_SELECTED: Final = "volume.kubernetes.io/selected-node"
_PROVISIONED: Final = "pv.kubernetes.io/provisioned-by"


class DiskProvisioner:
    """Creates a volume for each claim with a chosen node, and removes released volumes."""

    def __init__(self, ctx: ClusterContext) -> None:
        self._ctx = ctx
        self._wake = threading.Event()
        self._claims = Informer(ctx.watches, _CLAIMS, self._wake)
        self._volumes = Informer(ctx.watches, _VOLUMES, self._wake)

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set."""
        self._claims.start(stop)
        self._volumes.start(stop)
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
        for claim in self._claims.items():
            if is_waiting(claim) and volume_name(claim) not in there:
                self._try(self._provision, claim)
        for volume in self._volumes.items():
            is_ours = part(volume, "metadata", "annotations").get(_PROVISIONED) == DRIVER
            if is_ours and part(volume, "status").get("phase") == "Released":
                self._try(self._delete, volume)

    def _try(self, work: Callable[[JsonObject], None], item: JsonObject) -> None:
        try:
            work(item)
        except KubeError as error:
            _LOG.warning("disk of %s: %s", item["metadata"]["name"], error)

    def _delete(self, volume: JsonObject) -> None:
        self._ctx.kube.delete(f"{_VOLUMES}/{volume['metadata']['name']}")

    def _provision(self, claim: JsonObject) -> None:
        kube = self._ctx.kube
        found = kube.get(f"{_CLASSES}/{claim['spec']['storageClassName']}")
        if found["provisioner"] != DRIVER or is_refused(claim):
            return
        name = claim["metadata"]["annotations"][_SELECTED]
        try:
            node = kube.get(f"/api/v1/nodes/{name}")
        except KubeError as error:
            if error.status != 404:
                raise
            # as the real provisioner does: the scheduler chooses again
            kube.patch(_path(claim), {"metadata": {"annotations": {_SELECTED: None}}}, "merge")
            return
        zone = part(node, "metadata", "labels").get("topology.kubernetes.io/zone", "")
        if zone:
            kube.apply(volume_of(claim, self._ctx.spec.project, zone), manager=DRIVER)


def _path(claim: JsonObject) -> str:
    metadata = claim["metadata"]
    return f"/api/v1/namespaces/{metadata['namespace']}/persistentvolumeclaims/{metadata['name']}"


def is_refused(claim: JsonObject) -> bool:
    """Return whether the driver refuses a claim: a file system for several writing nodes. Pure."""
    spec = claim["spec"]
    is_file_system = spec.get("volumeMode", "Filesystem") == "Filesystem"
    return is_file_system and "ReadWriteMany" in spec["accessModes"]


def is_waiting(claim: JsonObject) -> bool:
    """Return whether a claim waits for a volume on a node that the scheduler chose. Pure."""
    spec = claim["spec"]
    annotations = part(claim, "metadata", "annotations")
    return bool(
        annotations.get(_SELECTED) and spec.get("storageClassName") and not spec.get("volumeName")
    )


def volume_name(claim: JsonObject) -> str:
    """Return the name of a claim's volume, which is also that of the disk. Pure."""
    return f"pvc-{claim['metadata']['uid']}"


def volume_of(claim: JsonObject, project: str, zone: str) -> JsonObject:
    """Return the volume of a claim in a zone. Pure."""
    metadata, spec, name = claim["metadata"], claim["spec"], volume_name(claim)
    term = {"key": ZONE, "operator": "In", "values": [zone]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"annotations": {_PROVISIONED: DRIVER}, "name": name},
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
                "volumeHandle": f"projects/{project}/zones/{zone}/disks/{name}",
            },
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}},
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": spec["storageClassName"],
        },
    }
