"""Disks that several pods use have an access mode that several nodes can attach."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken
from policies.framework.reading import at, entries
from policies.framework.rule import Invariant
from policies.objects.index import Obj, Objects
from policies.objects.pods import PodOf
from policies.objects.scaling import replicas
from policies.objects.world import World

_ONE_NODE = ("ReadWriteOnce", "ReadWriteOncePod")


def _check(world: World) -> Iterator[Finding]:
    for pod in world.pods:
        for name, volume in pod.volumes.items():
            claimed = at(volume, "persistentVolumeClaim", "claimName")
            claim = world.find("PersistentVolumeClaim", pod.obj.namespace, str(claimed))
            if claim is not None:
                yield from _findings(
                    pod, name, claim, at(volume, "persistentVolumeClaim", "readOnly")
                )


def _findings(pod: PodOf, name: str, claim: Obj, read_only: object) -> Iterator[Finding]:
    modes = [str(mode) for mode in entries(claim.body, "spec", "accessModes")]
    field = "spec.accessModes"
    most = max(replicas(pod)) * pod.hosts
    if most > 1 and modes and all(mode in _ONE_NODE for mode in modes):
        yield broken(
            claim,
            field,
            ", ".join(modes),
            f"{pod.obj.title} has up to {most} pods that mount it, possibly on as many nodes",
            "use ReadOnlyMany for weights, ReadWriteMany for writable files",
        )
    if not _is_hyperdisk_ml(pod.world, claim):
        return
    if "ReadOnlyMany" not in modes:
        yield broken(
            claim,
            field,
            ", ".join(modes),
            "many nodes can read a Hyperdisk ML volume, but not write to it",
            "write ReadOnlyMany",
        )
    mounts = [
        mount.get("readOnly")
        for container in pod.containers
        for mount in container.mounts
        if mount.get("name") == name
    ]
    if read_only is not True and any(each is not True for each in mounts):
        yield broken(
            pod.obj,
            pod.at(f"spec.volumes[{name}]"),
            claim.name,
            "a Hyperdisk ML volume is mounted for writing, which fails on the second node",
            "set readOnly: true in the volume or the mount",
        )


def _is_hyperdisk_ml(world: Objects, claim: Obj) -> bool:
    name = str(claim.at("spec", "storageClassName") or "")
    chosen = world.find("StorageClass", "", name)
    if chosen is not None:
        return chosen.at("parameters", "type") == "hyperdisk-ml"
    return "hyperdisk-ml" in name


RULE = Invariant(
    name="volume-access",
    description="Claims of several pods allow access from several nodes; weights are read-only.",
    reference="Hyperdisk ML on GKE; gcp-pd-csi #1591, #2058: multi-attach surprises",
    check=_check,
)
