"""The FUSE sidecar has enough memory, disk and CPU to read weights."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken
from policies.framework.rule import Invariant
from policies.objects.engines import engine
from policies.objects.fuse import fuse_volumes, options
from policies.objects.pods import PodOf
from policies.objects.world import World

_LIMITS = ("cpu-limit", "ephemeral-storage-limit", "memory-limit")
_CACHE = "gke-gcsfuse-cache"


def _check(world: World) -> Iterator[Finding]:
    for pod in world.pods:
        volumes = fuse_volumes(pod)
        if not volumes or not any(engine(each) for each in pod.containers):
            continue
        yield from _limits(pod)
        caching = [
            name
            for name, block in volumes.items()
            if "file-cache:max-size-mb" in options(block)
            or "fileCacheCapacity" in (block.get("volumeAttributes") or {})
        ]
        if caching and _CACHE not in pod.volumes and not _streams(pod):
            yield broken(
                pod.obj,
                pod.at("spec.volumes"),
                None,
                f"volume {caching[0]} caches files and the pod has no {_CACHE}: the cache goes to "
                "the node's boot disk",
                f"add an emptyDir {_CACHE}, in memory or on local SSD",
            )


def _limits(pod: PodOf) -> Iterator[Finding]:
    annotations = pod.template.annotations
    missing = [
        f"gke-gcsfuse/{each}" for each in _LIMITS if f"gke-gcsfuse/{each}" not in annotations
    ]
    if missing:
        yield broken(
            pod.obj,
            pod.at("metadata.annotations"),
            None,
            f"{', '.join(missing)} not set: the defaults (0.25 CPU, 256 MiB, 5 GiB) throttle "
            "the loading of weights",
            'set them; "0" means no limit',
        )


def _streams(pod: PodOf) -> bool:
    """Return whether the engine streams the weights without the mount, so nothing is cached."""
    for each in pod.containers:
        server = engine(each)
        if server is not None and (server.model or "").startswith("gs://"):
            return True
    return False


RULE = Invariant(
    name="fuse-sidecar",
    description="Servers that read weights through FUSE set sidecar resources and a cache volume.",
    reference="GoogleCloudPlatform/gcs-fuse-csi-driver; accelerated-platforms serving manifests",
    check=_check,
)
