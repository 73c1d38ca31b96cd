"""A file system that exists already as a volume and a claim, in one or more namespaces."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import pulumi
import pulumi_kubernetes as kubernetes

from gke_inference.base.manifests import SKIP_AWAIT

STORAGE_CLASS = "gke-inference-shared"
"""Links volume and claim. No storage class with this name needs to exist."""
_NOMINAL = {"storage": "1Ti"}
"""Size of volume and claim, which neither NFS nor Lustre enforces. The size of a claim without a
real storage class cannot change, but that of the instance can."""
_MODES = ["ReadWriteMany"]


@dataclass(frozen=True)
class SharedVolume:
    """What all volumes of a folder have in common.

    A volume has one claim, and a claim one namespace: there is one of each for each namespace.
    """

    driver: str
    """CSI driver."""
    attributes: dict[str, pulumi.Input[str]]
    """Attributes for the driver."""
    handle: str
    """The driver's name of the file system. All volumes have the same: a node mounts a handle once
    for all of them, and Lustre's driver refuses a file system that is mounted for another handle
    (GoogleCloudPlatform/lustre-csi-driver pkg/csi_driver/node.go @0457b2c)."""
    claim_name: str
    """Name of the claim in each namespace."""
    mount_options: tuple[str, ...] = ()

    def claimed(
        self, name: str, volume_name: str, namespaces: list[str], opts: pulumi.ResourceOptions
    ) -> pulumi.Output[str]:
        """Build a volume and its claim in each namespace, and return the name of the first claim.

        Args:
            name: Prefix of the logical names.
            volume_name: Name of the first volume; others have their namespace appended.
            namespaces: Namespaces, each once.
            opts: Options of the children.
        """
        first, *more = namespaces
        claim = self._one(name, "", volume_name, first, opts)
        for namespace in more:
            self._one(name, f"-{namespace}", f"{volume_name}-{namespace}", namespace, opts)
        return claim.metadata.apply(lambda _: self.claim_name)

    def _one(
        self, name: str, suffix: str, volume_name: str, namespace: str, opts: pulumi.ResourceOptions
    ) -> kubernetes.core.v1.PersistentVolumeClaim:
        volume = kubernetes.core.v1.PersistentVolume(
            f"{name}-volume{suffix}",
            metadata={"name": volume_name},
            spec={
                "access_modes": _MODES,
                "capacity": _NOMINAL,
                "claim_ref": {"name": self.claim_name, "namespace": namespace},
                "csi": {
                    "driver": self.driver,
                    "volume_attributes": self.attributes,
                    "volume_handle": self.handle,
                },
                "mount_options": list(self.mount_options) or None,
                "persistent_volume_reclaim_policy": "Retain",
                "storage_class_name": STORAGE_CLASS,
            },
            opts=opts,
        )
        return kubernetes.core.v1.PersistentVolumeClaim(
            f"{name}-claim{suffix}",
            metadata={
                "annotations": SKIP_AWAIT,
                "name": self.claim_name,
                "namespace": namespace,
            },
            spec={
                "access_modes": _MODES,
                "resources": {"requests": _NOMINAL},
                "storage_class_name": STORAGE_CLASS,
                "volume_name": volume_name,
            },
            opts=pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[volume])),
        )


def namespaces_of(args: object) -> list[str]:
    """Return the namespaces that have a claim: `namespace`, and those of `more_namespaces`.

    Raises:
        pulumi.InputPropertyError: A namespace is given twice.
    """
    given = cast("Mapping[str, Any]", args)
    found = [str(given["namespace"])]
    for at, namespace in enumerate(given.get("more_namespaces") or []):
        if namespace in found:
            rule = "must be a namespace that no other entry names"
            raise pulumi.InputPropertyError(f"moreNamespaces[{at}]", f"{rule}, got {namespace!r}")
        found.append(namespace)
    return found
