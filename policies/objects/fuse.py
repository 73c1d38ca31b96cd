"""Cloud Storage FUSE volumes of a pod."""

from policies.framework.reading import at
from policies.framework.resources import Properties
from policies.objects.pods import PodOf

DRIVER = "gcsfuse.csi.storage.gke.io"


def fuse_volumes(pod: PodOf) -> dict[str, Properties]:
    """Return the name and CSI block of a pod's bucket volumes, including those of claims."""
    found: dict[str, Properties] = {}
    for name, volume in pod.volumes.items():
        if at(volume, "csi", "driver") == DRIVER:
            found[name] = volume["csi"]
            continue
        claimed = at(volume, "persistentVolumeClaim", "claimName")
        claim = pod.world.find("PersistentVolumeClaim", pod.obj.namespace, str(claimed))
        if claim is None:
            continue
        disk = pod.world.find("PersistentVolume", "", str(claim.at("spec", "volumeName")))
        if disk is not None and disk.at("spec", "csi", "driver") == DRIVER:
            found[name] = disk.at("spec", "csi")
    return found


def options(block: Properties) -> str:
    """Return the mount options of a volume as one string."""
    return str(at(block, "volumeAttributes", "mountOptions") or "")
