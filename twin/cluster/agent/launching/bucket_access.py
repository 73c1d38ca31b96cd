"""Buckets that a pod may mount, by the roles of its Kubernetes service account."""

import re
from typing import Final

from twin.cluster.agent.launching.environment import ConfigError
from twin.host.paths import TwinPaths
from twin.wire.kube import JsonObject
from twin.world.store import Record, list_resources

_ON_BUCKET: Final = "gcp:storage/bucketIAMMember:BucketIAMMember"
_ON_PROJECT: Final = "gcp:projects/iAMMember:IAMMember"
_LISTS: Final = frozenset(
    f"roles/storage.{name}"
    for name in (
        "admin",
        "legacyBucketOwner",
        "legacyBucketReader",
        "legacyBucketWriter",
        "objectAdmin",
        "objectUser",
        "objectViewer",
    )
)
"""Roles with storage.objects.list (docs.cloud.google.com/storage/docs/access-control/iam-roles)."""
_MEMBER: Final = re.compile(
    r"principal(Set)?://iam\.googleapis\.com/projects/\d+/locations/global/workloadIdentityPools/"
    r"(?P<project>[^/]+)\.svc\.id\.goog/(?P<whom>.+)"
)


def check_access(paths: TwinPaths, project: str, pod: JsonObject, bucket: str) -> None:
    """Reject the mount of a bucket whose objects the pod may not list (rule cloud.fuse-access).

    Args:
        paths: Files of the twin.
        project: Project of the cluster, whose workload pool has the pod's account.
        pod: The pod.
        bucket: Bucket of a volume.

    Raises:
        ConfigError: No role allows it.
    """
    namespace: str = pod["metadata"]["namespace"]
    account = pod["spec"].get("serviceAccountName") or "default"
    whom = (f"subject/ns/{namespace}/sa/{account}", f"namespace/{namespace}")
    grants = (each for each in list_resources(paths) if each.status != "creating")
    if not any(_allows(each, project, whom, bucket) for each in grants):
        layout = f'GetStorageLayout for "projects/_/buckets/{bucket}/storageLayout"'
        raise ConfigError(
            "rpc error: code = PermissionDenied desc = gcsfuse failed with error: Error: "
            "mountWithStorageHandle: fs.NewServer: create file system: SetUpBucket: BucketHandle: "
            f"storageLayout call failed: {layout} failed with a non-retryable error: rpc error: "
            "code = PermissionDenied desc = Caller does not have storage.objects.list access to "
            "the Google Cloud Storage bucket. Permission 'storage.objects.list' denied on resource "
            "(or it may not exist)."
        )


def _allows(grant: Record, project: str, whom: tuple[str, ...], bucket: str) -> bool:
    is_here = (grant.type == _ON_BUCKET and grant.inputs.get("bucket") == bucket) or (
        grant.type == _ON_PROJECT and grant.inputs.get("project") == project
    )
    if not is_here or grant.inputs.get("role") not in _LISTS:
        return False
    found = _MEMBER.fullmatch(str(grant.inputs.get("member")))
    return found is not None and found["project"] == project and found["whom"] in whom
