"""Cloud Storage volumes with GKE's Cloud Storage FUSE CSI driver, as pure builders.

Options: GoogleCloudPlatform/accelerated-platforms @9320f3b2 use-cases/inference-ref-arch and
GoogleCloudPlatform/gcs-fuse-csi-driver @5fcdc04.
"""

from typing import Any

DRIVER = "gcsfuse.csi.storage.gke.io"


SCANNER_ROLES = ("roles/storage.legacyBucketReader",)
"""Roles on a bucket for GKE's service agent, which reads the bucket's metadata and lists its
objects before a volume with a profile is mounted. GKE's guide has a custom role that can also
create caches."""

NO_CACHES = {"anywhereCacheZones": "none"}
"""Volume attributes that keep profile `serving` from creating Anywhere Caches in every zone."""


def profile_class(profile: str) -> str:
    """Return the storage class of a profile, whose volumes GKE tunes by bucket and node.

    Source: GoogleCloudPlatform/gcs-fuse-csi-driver @5fcdc04.
    """
    return f"gcsfusecsi-{profile}"


_AUTOPILOT_CPU = "2"
_AUTOPILOT_DISK = "5Gi"  # the sidecar's default: no cache is on disk
_UNBOUNDED = "file-cache:max-size-mb:-1"
_CACHE_FILL = (
    0.95  # size of the volume: a folder may contain more than the weights that a server reads
)

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
"""For weights: they do not change while a server runs, so caches never become stale."""

WRITE_OPTIONS: tuple[str, ...] = ("implicit-dirs",)
"""For files that several pods write, such as compiled programs: no long-lived caches."""

LIVE_OPTIONS: tuple[str, ...] = (
    "implicit-dirs",
    "metadata-cache:ttl-secs:2",
    "metadata-cache:negative-ttl-secs:0",
    "file-system:kernel-list-cache-ttl-secs:0",
)
"""For files uploaded while pods run: a new folder is listed at once, a changed file is seen within
two seconds. With the options for weights, changes would never be seen."""

SIDECAR_GIB = 1
"""Memory of GKE's sidecar beside the file cache. Assumed; its default is 256 MiB."""


def pod_annotations(cache_gib: int = 0, *, is_autopilot: bool = False) -> dict[str, str]:
    """Return the annotations for a pod with buckets, to which GKE adds its sidecar.

    "0" means no limit, since a file cache the size of the model would exceed the default limits
    and kill the sidecar. Autopilot replaces "0" by a minimum
    (GoogleCloudPlatform/gcs-fuse-csi-driver issues 35, 61 and 170), so the limits are numbers
    there. Without a limit, the request is a number as well: the cache is memory of the sidecar
    (pkg/webhook/config.go @01870a9).

    Args:
        cache_gib: Size of the file cache in memory, 0 without one.
        is_autopilot: Whether the cluster is in Autopilot mode.
    """
    found = {"gke-gcsfuse/volumes": "true"}
    memory = f"{cache_gib + SIDECAR_GIB}Gi"
    if is_autopilot:
        limits = {"cpu": _AUTOPILOT_CPU, "ephemeral-storage": _AUTOPILOT_DISK, "memory": memory}
    else:
        limits = dict.fromkeys(("cpu", "ephemeral-storage", "memory"), "0")
        if cache_gib:
            found["gke-gcsfuse/memory-request"] = memory
    return {**{f"gke-gcsfuse/{name}-limit": value for name, value in limits.items()}, **found}


CACHE_VOLUME = "gke-gcsfuse-cache"
"""Name of the pod volume in which the sidecar keeps its file cache."""


def mount_options(
    *,
    folder: str | None = None,
    is_read_only: bool = True,
    is_live: bool = False,
    cache_gib: int | None = None,
) -> list[str]:
    """Return mount options for serving.

    Args:
        folder: Folder of the bucket that becomes the root. Default: the whole bucket.
        is_read_only: Whether the volume is read-only.
        is_live: Whether the volume is read and must show files that others upload meanwhile.
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
    """Return a `spec.volumes` entry of a pod: a bucket without a claim.

    The arguments are those of `mount_options`.
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
    """Return the pod volume of the file cache.

    Args:
        size_gib: At most this much; as large as the node allows when it is `None`.
        is_in_memory: Memory, right for TPU nodes, which have no local SSD; otherwise the node's
            ephemeral storage, right where that is local SSD.
    """
    directory: dict[str, Any] = {"medium": "Memory"} if is_in_memory else {}
    if size_gib is not None:
        directory["sizeLimit"] = f"{size_gib}Gi"
    return {"emptyDir": directory, "name": CACHE_VOLUME}
