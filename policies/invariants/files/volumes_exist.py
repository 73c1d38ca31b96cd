"""Mounted volumes exist, as do their claims, persistent volumes and ConfigMaps."""

from collections.abc import Iterator

from policies.framework.finding import Finding, absent, broken
from policies.framework.reading import at, entries
from policies.framework.rule import Invariant
from policies.objects.pods import PodOf
from policies.objects.world import World

_CLAIMS = "persistentVolumeClaim"
_EVERYWHERE = "kube-root-ca.crt"
"""A ConfigMap that Kubernetes maintains in every namespace."""


def _check(world: World) -> Iterator[Finding]:
    for pod in world.pods:
        yield from _mounts(pod)
        for name, volume in pod.volumes.items():
            field = pod.at(f"spec.volumes[{name}]")
            claim = at(volume, _CLAIMS, "claimName")
            if claim and not _has(pod, "PersistentVolumeClaim", str(claim)):
                yield from _absent(pod, "PersistentVolumeClaim", f"{field}.{_CLAIMS}", str(claim))
            config = at(volume, "configMap", "name")
            optional = at(volume, "configMap", "optional") is True
            if config in (None, "", _EVERYWHERE) or optional:
                continue
            if not _has(pod, "ConfigMap", str(config)):
                yield from _absent(pod, "ConfigMap", f"{field}.configMap", str(config))


def _mounts(pod: PodOf) -> Iterator[Finding]:
    claimed = {
        str(at(each, "metadata", "name"))
        for each in entries(pod.obj.body, "spec", "volumeClaimTemplates")
    }
    for container in pod.containers:
        for mount in container.mounts:
            name = str(mount.get("name"))
            if name not in pod.volumes and name not in claimed:
                yield broken(
                    pod.obj,
                    f"{container.path}.volumeMounts",
                    name,
                    "the pod has no volume with this name",
                    "add the volume, or mount another",
                )


def _has(pod: PodOf, kind: str, name: str) -> bool:
    return pod.world.find(kind, pod.obj.namespace, name) is not None


def _absent(pod: PodOf, kind: str, field: str, name: str) -> Iterator[Finding]:
    is_read = any(each.namespace == pod.obj.namespace for each in pod.world.of(kind))
    unread = (f"no {kind} of the namespace was read", f"check the {kind}s, too")
    because = (f"no {kind} of this name is in the namespace", "use an existing one, or add it")
    yield absent(pod.obj, field, name, because, None if is_read else unread)


RULE = Invariant(
    name="volumes-exist",
    description="Mounts reference existing volumes, and volumes existing claims and ConfigMaps.",
    reference="Kubernetes: pods with a missing volume stay in ContainerCreating",
    check=_check,
)
