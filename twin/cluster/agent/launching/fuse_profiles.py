"""Profiles of Cloud Storage FUSE: where GKE tunes a volume of a bucket, and where it cannot."""

from gke_inference.catalogue.fuse import SCANNER_ROLES, profile_class
from gke_inference.catalogue.versions import gke_minimum, version_key
from gke_inference.storage.settings import MountProfile
from twin.cluster.agent.launching.environment import ConfigError
from twin.host.paths import TwinPaths
from twin.world.store import list_resources

_CLUSTER = "gcp:container/cluster:Cluster"
_GRANT = "gcp:storage/bucketIAMMember:BucketIAMMember"
_AGENT = "@container-engine-robot.iam.gserviceaccount.com"
_CLASSES = frozenset(profile_class(profile.value) for profile in MountProfile)
_WIDER = (
    "roles/storage.admin",
    "roles/storage.legacyBucketOwner",
    "roles/storage.legacyBucketWriter",
)


def check_profile(paths: TwinPaths, cluster: str, storage_class: str, bucket: str) -> None:
    """Reject a volume that GKE would not tune (rule cloud.fuse-profiles).

    Args:
        paths: Files of the twin.
        cluster: Name of the cluster.
        storage_class: Of the volume; only those of profiles are checked.
        bucket: Of the volume.

    Raises:
        ConfigError: The cluster is too old, or its service agent may not scan the bucket.
    """
    if storage_class not in _CLASSES:
        return
    found = list_resources(paths, (_CLUSTER, _GRANT))
    resources = [each for each in found if each.status == "ready"]
    least = gke_minimum("fuse-profiles")
    versions = [
        str(each.outputs.get("masterVersion"))
        for each in resources
        if (each.type, each.name) == (_CLUSTER, cluster)
    ]
    if not versions or version_key(versions[0]) < version_key(least):
        raise ConfigError(f'storageclass.storage.k8s.io "{storage_class}" not found before {least}')
    allowed = any(
        each.type == _GRANT
        and each.outputs.get("bucket") == bucket
        and each.outputs.get("role") in (*SCANNER_ROLES, *_WIDER)
        and str(each.outputs.get("member")).endswith(_AGENT)
        for each in resources
    )
    if not allowed:
        text = f"bucket {bucket!r}: GKE's service agent does not have storage.objects.list access"
        raise ConfigError(f"rpc error: code = PermissionDenied desc = failed to scan {text}")
