"""Cloud Storage as files, through the Cloud Storage FUSE CSI driver of GKE: pure builders.

Options: GoogleCloudPlatform/accelerated-platforms @9320f3b2 use-cases/inference-ref-arch and
GoogleCloudPlatform/gcs-fuse-csi-driver @5fcdc04.
"""

from typing import Any

DRIVER = "gcsfuse.csi.storage.gke.io"

_UNBOUNDED = "file-cache:max-size-mb:-1"
_CACHE_FILL = 0.95  # of its volume: a folder may hold more than the weights that a server reads

READ_OPTIONS: tuple[str, ...] = (
    "implicit-dirs",
    "metadata-cache:ttl-secs:-1",
    "metadata-cache:stat-cache-max-size-mb:-1",
    "metadata-cache:type-cache-max-size-mb:-1",
    "metadata-cache:negative-ttl-secs:0",
    _UNBOUNDED,
    "file-cache:cache-file-for-range-read:true",
    "file-cache:enable-parallel-downloads:true",
    "file-system:kernel-list-cache-ttl-secs:-1",
)
"""For weights: they do not change while a server runs, so nothing cached ever goes stale."""

WRITE_OPTIONS: tuple[str, ...] = ("implicit-dirs",)
"""For what several pods write, such as compiled programs: nothing is cached for good."""

LIVE_OPTIONS: tuple[str, ...] = (
    "implicit-dirs",
    "metadata-cache:ttl-secs:2",
    "metadata-cache:negative-ttl-secs:0",
    "file-system:kernel-list-cache-ttl-secs:0",
)
"""For what is uploaded while pods run: a new folder is listed at once, a changed file within two
seconds. With the options for weights it would never be seen."""

POD_ANNOTATIONS = {
    "gke-gcsfuse/cpu-limit": "0",
    "gke-gcsfuse/ephemeral-storage-limit": "0",
    "gke-gcsfuse/memory-limit": "0",
    "gke-gcsfuse/volumes": "true",
}
"""What a pod needs: GKE adds its side-car; "0" is no limit, since a file cache the size of the
model would make the default ones kill it."""

CACHE_VOLUME = "gke-gcsfuse-cache"
"""A pod volume of this name is where the side-car keeps its file cache."""


def mount_options(
    *,
    folder: str | None = None,
    is_read_only: bool = True,
    is_live: bool = False,
    cache_gib: int | None = None,
) -> list[str]:
    """Returns mount options for serving.

    Args:
        folder: Folder of the bucket that becomes the root. Default: the whole bucket.
        is_read_only: Whether nothing is written.
        is_live: It is read, and what others upload meanwhile is seen.
        cache_gib: Size of the volume that holds the file cache. Default: the cache has no limit.
    """
    reading = LIVE_OPTIONS if is_live else READ_OPTIONS
    options = list(reading if is_read_only else WRITE_OPTIONS)
    if cache_gib is not None and _UNBOUNDED in options:
        size = int(cache_gib * 1024 * _CACHE_FILL)
        options[options.index(_UNBOUNDED)] = f"file-cache:max-size-mb:{size}"
    if folder is not None:
        options.append(f"only-dir:{folder.strip('/')}")
    return options


def fuse_volume(
    name: str,
    bucket: str,
    *,
    folder: str | None = None,
    is_read_only: bool = True,
    is_live: bool = False,
    cache_gib: int | None = None,
) -> dict[str, Any]:
    """Returns an entry of `spec.volumes` of a pod: a bucket without a claim.

    Arguments are those of `mount_options`.
    """
    options = mount_options(
        folder=folder, is_read_only=is_read_only, is_live=is_live, cache_gib=cache_gib
    )
    return {
        "csi": {
            "driver": DRIVER,
            "readOnly": is_read_only,
            "volumeAttributes": {"bucketName": bucket, "mountOptions": ",".join(options)},
        },
        "name": name,
    }


def cache_volume(size_gib: int | None = None, *, is_in_memory: bool = True) -> dict[str, Any]:
    """Returns the pod volume of the file cache.

    Args:
        size_gib: At most this much; as large as the node allows when it is `None`.
        is_in_memory: Memory, right for TPU nodes, which have no local SSD; otherwise the node's
            ephemeral storage, right where that is local SSD.
    """
    directory: dict[str, Any] = {"medium": "Memory"} if is_in_memory else {}
    if size_gib is not None:
        directory["sizeLimit"] = f"{size_gib}Gi"
    return {"emptyDir": directory, "name": CACHE_VOLUME}
