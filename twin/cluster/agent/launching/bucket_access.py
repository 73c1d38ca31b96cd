"""Buckets that a pod may mount, by the roles of its identity."""

from twin.cluster.agent.launching.environment import ConfigError
from twin.host.paths import TwinPaths
from twin.providers.gcp.iam.grants import BUCKET, allows
from twin.providers.gcp.iam.principals import Principal
from twin.wire.kube import JsonObject
from twin.world.store import Store


def caller_of(project: str, pod: JsonObject) -> Principal:
    """Return the identity with which a pod calls Google's APIs.

    Args:
        project: Project of the cluster, whose workload pool has the pod's account.
        pod: The pod.
    """
    account = pod["spec"].get("serviceAccountName") or "default"
    return Principal.of_pod(project, pod["metadata"]["namespace"], account)


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
    caller = caller_of(project, pod)
    if not allows(Store(paths.cloud_db), caller, "storage.objects.list", BUCKET, bucket):
        layout = f'GetStorageLayout for "projects/_/buckets/{bucket}/storageLayout"'
        raise ConfigError(
            "rpc error: code = PermissionDenied desc = gcsfuse failed with error: Error: "
            "mountWithStorageHandle: fs.NewServer: create file system: SetUpBucket: BucketHandle: "
            f"storageLayout call failed: {layout} failed with a non-retryable error: rpc error: "
            "code = PermissionDenied desc = Caller does not have storage.objects.list access to "
            "the Google Cloud Storage bucket. Permission 'storage.objects.list' denied on resource "
            "(or it may not exist)."
        )
