"""Caches for compiled or downloaded files are on a writable volume."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken
from policies.framework.reading import at
from policies.framework.rule import Invariant
from policies.objects.pods import Container
from policies.objects.world import World

_WRITTEN = (
    "HF_HOME",
    "HF_HUB_CACHE",
    "JAX_COMPILATION_CACHE_DIR",
    "VLLM_CACHE_ROOT",
    "VLLM_XLA_CACHE_PATH",
)


def _check(world: World) -> Iterator[Finding]:
    for container in world.containers:
        if container.environment.get("HF_HUB_OFFLINE") in ("1", "true"):
            continue
        for name in _WRITTEN:
            path = container.environment.get(name) or ""
            if path.startswith("/") and _is_read_only(container, path):
                yield broken(
                    container.pod.obj,
                    f"{container.path}.env[{name}]",
                    path,
                    "the volume is mounted read-only: the cache is never written",
                    "mount it for writing, or set the variable to another volume",
                )


def _is_read_only(container: Container, path: str) -> bool:
    mount = container.mount_of(path)
    if mount is None:
        return False
    volume = container.pod.volumes.get(str(mount.get("name")), {})
    return mount.get("readOnly") is True or at(volume, "csi", "readOnly") is True


RULE = Invariant(
    name="caches-are-writable",
    description="Cache directories in variables are on volumes mounted for writing.",
    reference="tpu-inference #606: compile cache not reused",
    check=_check,
)
