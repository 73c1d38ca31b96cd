"""TPU servers keep compiled programs. Otherwise, each start compiles again for many minutes."""

from collections.abc import Iterator
from pathlib import PurePosixPath

from policies.framework.finding import Finding, broken, quoted
from policies.framework.reading import (
    PodTemplate,
    at,
    chips,
    entries,
    environment,
    is_workload,
    pods,
)
from policies.framework.resources import Properties, Resource
from policies.framework.rule import Config, OnObjects, ResourceRule

VARIABLE = "VLLM_XLA_CACHE_PATH"
"""Compile cache of vLLM."""
JAX_VARIABLE = "JAX_COMPILATION_CACHE_DIR"
"""Compile cache of other JAX programs, such as an image generation server."""
_LASTING = ("csi", "ephemeral", "nfs", "persistentVolumeClaim")
_TPU_VARIABLES = frozenset(["TPU_ACCELERATOR_TYPE", "TPU_TOPOLOGY"])


def _is_tpu_server(container: Properties) -> bool:
    """Return whether a container uses TPU chips, requested, claimed or found on the node."""
    image = str(at(container, "image")).rpartition("/")[2]
    if entries(container, "resources", "claims") and "tpu" in image:
        return True
    return "google.com/tpu" in chips(container) or not _TPU_VARIABLES.isdisjoint(
        str(at(entry, "name")) for entry in entries(container, "env")
    )


def _variable(container: Properties, known: Properties) -> str:
    """Return the variable with the compile cache of a server."""
    if VARIABLE not in known and JAX_VARIABLE in known:
        return VARIABLE if "vllm" in str(at(container, "image")) else JAX_VARIABLE
    return VARIABLE


def _volume_of(pod: PodTemplate, container: Properties, path: str) -> Properties | None:
    """Return the volume whose mount contains a path, the longest mount path first."""
    mounts = [
        mount
        for mount in entries(container, "volumeMounts")
        if PurePosixPath(path).is_relative_to(str(at(mount, "mountPath")))
    ]
    if not mounts:
        return None
    nearest = max(mounts, key=lambda mount: len(str(at(mount, "mountPath"))))
    name = at(nearest, "name")
    return next((each for each in entries(pod.spec, "volumes") if at(each, "name") == name), None)


def _check(resource: Resource, _: Config) -> Iterator[Finding]:
    for pod in pods(resource):
        for path, container in pod.containers():
            if not _is_tpu_server(container):
                continue
            known = environment(container)
            variable = _variable(container, known)
            cache = known.get(variable)
            if not isinstance(cache, str) or not cache:
                yield broken(
                    resource,
                    f"{path}.env",
                    quoted(cache),
                    f"{variable} must be a path on a lasting volume",
                )
                continue
            if "://" in cache:
                continue  # the engine writes to a bucket directly
            volume = _volume_of(pod, container, cache)
            if volume is None:
                yield broken(
                    resource, f"{path}.volumeMounts", f"none for {cache!r}", f"must hold {variable}"
                )
            elif not any(kind in volume for kind in _LASTING):
                name = at(volume, "name")
                yield broken(
                    resource,
                    f"{path}.volumeMounts",
                    f"volume {name!r}",
                    f"{variable} must outlive the pod",
                )


RULE = ResourceRule(
    name="compile-cache",
    description="TPU servers keep compiled programs on a volume that outlives the pod.",
    applies=is_workload,
    check=_check,
    reference="vLLM on TPU: VLLM_XLA_CACHE_PATH; JAX: JAX_COMPILATION_CACHE_DIR",
    on_objects=OnObjects(
        subject="files",
        fix="set VLLM_XLA_CACHE_PATH to a folder on a bucket or claim that is mounted",
        reference="accelerated-platforms online-inference-tpu base: /data is set and not mounted",
    ),
)
