"""Nodes that the claims of a pod allow, as the scheduler decides it. Pure.

Rule: `autoscaler.volumes`. Decisions and messages are those of the plugins `VolumeBinding`,
`VolumeZone` and `NodeVolumeLimits` (kubernetes 1.36, pkg/scheduler/framework/plugins).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from twin.cluster.base.fields import part, parts, text_map
from twin.cluster.base.matching import ANYWHERE, Term, node_terms, selects
from twin.cluster.base.quantities import quantity
from twin.cluster.nodes.disks import DRIVER, SELECTED, class_of, topologies, waits_for_a_pod
from twin.wire.kube import JsonObject

NODE_CONFLICT: Final = "node(s) didn't match PersistentVolume's node affinity"
"""Up to Kubernetes 1.34, the same was `node(s) had volume node affinity conflict`."""
BIND_CONFLICT: Final = "node(s) didn't find available persistent volumes to bind"
ZONE_CONFLICT: Final = "node(s) had no available volume zone"
TOO_MANY: Final = "node(s) exceed max volume count"
UNBOUND: Final = "pod has unbound immediate PersistentVolumeClaims"
_NO_VOLUME: Final = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
_BOUND: Final = "pv.kubernetes.io/bind-completed"
_HOST: Final = "kubernetes.io/hostname"
_NOT_PROVISIONED: Final = ("", "kubernetes.io/no-provisioner")
_ZONE_LABELS: Final = (
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
)


@dataclass(frozen=True)
class Need:
    """What a claim of a pod requires of its node."""

    why: str
    """Reason against a node that does not meet it."""
    terms: tuple[Term, ...] = ()
    """Labels of nodes that meet it: any of these. Without any, no node does."""
    disk: str | None = None
    """Disk that the node attaches; None for a volume that is no disk of the driver."""


class Volumes:
    """Claims, volumes and storage classes of a cluster at one moment.

    Args:
        claims: PersistentVolumeClaims.
        volumes: PersistentVolumes.
        classes: StorageClasses.
    """

    def __init__(
        self,
        claims: Iterable[JsonObject] = (),
        volumes: Iterable[JsonObject] = (),
        classes: Iterable[JsonObject] = (),
    ) -> None:
        self._claims = {_key(item): item for item in claims}
        self._volumes = {item["metadata"]["name"]: item for item in volumes}
        self._classes = {item["metadata"]["name"]: item for item in classes}

    def needs(self, pod: JsonObject) -> tuple[Need, ...]:
        """Return what the claims of a Pod object require of its node."""
        return tuple(self._needs(pod))

    def _needs(self, pod: JsonObject) -> Iterator[Need]:
        meta: JsonObject = pod["metadata"]
        for volume in parts(pod["spec"], "volumes"):
            if "persistentVolumeClaim" in volume:
                name = str(volume["persistentVolumeClaim"]["claimName"])
                missing = f'persistentvolumeclaim "{name}" not found'
            elif "ephemeral" in volume:
                name = f"{meta['name']}-{volume['name']}"
                missing = (
                    "waiting for ephemeral volume controller to create the "
                    f'persistentvolumeclaim "{name}"'
                )
            else:
                continue
            claim = self._claims.get(f"{meta['namespace']}/{name}")
            if claim is None:
                yield Need(missing)
            else:
                yield from self._of(claim)

    def _of(self, claim: JsonObject) -> Iterator[Need]:
        name, spec = claim["metadata"]["name"], claim["spec"]
        volume = str(spec.get("volumeName") or "")
        if part(claim, "status").get("phase") == "Lost":
            yield Need(
                f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"'
            )
        elif claim["metadata"].get("deletionTimestamp"):
            yield Need(f'persistentvolumeclaim "{name}" is being deleted')
        elif volume and _BOUND in part(claim["metadata"], "annotations"):
            yield from self._bound(volume)
        elif volume or not waits_for_a_pod(self._classes.get(class_of(claim))):
            yield Need(UNBOUND)
        else:
            yield self._late(claim, self._classes[class_of(claim)])

    def _bound(self, name: str) -> Iterator[Need]:
        volume = self._volumes.get(name)
        if volume is None:
            yield Need(_NO_VOLUME)
            return
        yield Need(NODE_CONFLICT, _terms(volume), _disk(volume))
        labels = text_map(volume["metadata"], "labels")
        for key in _ZONE_LABELS:
            if key in labels:
                values = tuple(labels[key].split("__"))
                yield Need(ZONE_CONFLICT, (((key, "In", values),),))

    def _late(self, claim: JsonObject, storage: JsonObject) -> Need:
        """Return the need of a claim that gets its volume with its first pod."""
        disk = _key(claim) if storage["provisioner"] == DRIVER else None
        chosen = part(claim["metadata"], "annotations").get(SELECTED)
        if chosen is not None:
            return Need(BIND_CONFLICT, (((_HOST, "In", (str(chosen),)),),), disk)
        found = [
            term
            for volume in self._volumes.values()
            if _suits(volume, claim)
            for term in _terms(volume)
        ]
        if storage["provisioner"] not in _NOT_PROVISIONED:
            found += topologies(storage) or (ANYWHERE,)
        return Need(BIND_CONFLICT, tuple(found), disk)


def _key(item: JsonObject) -> str:
    return f"{item['metadata']['namespace']}/{item['metadata']['name']}"


def _terms(volume: JsonObject) -> tuple[Term, ...]:
    affinity = part(volume["spec"], "nodeAffinity")
    return node_terms(part(affinity, "required")) if "required" in affinity else (ANYWHERE,)


def _disk(volume: JsonObject) -> str | None:
    source = part(volume["spec"], "csi")
    return str(source.get("volumeHandle")) if source.get("driver") == DRIVER else None


def _suits(volume: JsonObject, claim: JsonObject) -> bool:
    """Return whether a free volume can become that of a claim."""
    offered, wanted = volume["spec"], claim["spec"]
    holder = part(offered, "claimRef")
    is_free = not holder or f"{holder.get('namespace')}/{holder.get('name')}" == _key(claim)
    modes = set(wanted.get("accessModes") or ())
    return (
        is_free
        and not volume["metadata"].get("deletionTimestamp")
        and part(volume, "status").get("phase") in {"Available", "Pending"}
        and offered.get("storageClassName", "") == class_of(claim)
        and offered.get("volumeMode", "Filesystem") == wanted.get("volumeMode", "Filesystem")
        and modes <= set(offered.get("accessModes") or ())
        and _bytes(part(offered, "capacity")) >= _bytes(part(wanted, "resources", "requests"))
        and selects(part(wanted, "selector"), text_map(volume["metadata"], "labels"))
    )


def _bytes(amounts: Mapping[str, str]) -> float:
    return quantity(str(amounts.get("storage", "0")))
