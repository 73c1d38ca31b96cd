"""Capacity buffers: pods that exist only in the autoscaler's memory, for which it keeps nodes.

The pure functions decide how many units a buffer has and which nodes hold them. `CapacityBuffers`
reads what buffers refer to and writes their status, as upstream's controller does. Rules: buffer.*.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gke_inference.catalogue.versions import api
from twin.cluster.autoscaler.plan import pack
from twin.cluster.autoscaler.pods import Pod, Room, parse, requests_of
from twin.cluster.autoscaler.state import Cluster
from twin.cluster.autoscaler.volumes import Volumes
from twin.cluster.base.context import ClusterContext
from twin.cluster.base.fields import part, parts, text_map
from twin.cluster.base.quantities import Amounts, quantity
from twin.cluster.base.reports import timestamp
from twin.cluster.nodes.node_objects import CLASS_LABEL
from twin.wire.kube import JsonObject, KubeError

ACTIVE = "buffer.x-k8s.io/active-capacity"
_READY, _PROVISIONING, _LIMITED = "ReadyForProvisioning", "Provisioning", "LimitedByQuotas"
_MANAGER = "cluster-autoscaler"
_SCALABLE = {
    ("apps", "Deployment"): "/apis/apps/v1/namespaces/{}/deployments/{}",
    ("apps", "ReplicaSet"): "/apis/apps/v1/namespaces/{}/replicasets/{}",
    ("apps", "StatefulSet"): "/apis/apps/v1/namespaces/{}/statefulsets/{}",
    ("batch", "Job"): "/apis/batch/v1/namespaces/{}/jobs/{}",
    ("", "ReplicationController"): "/api/v1/namespaces/{}/replicationcontrollers/{}",
}
"""Paths of the objects whose template a buffer can use, by API group and kind."""


class UnprovisionableError(Exception):
    """A buffer that cannot be provisioned as it is."""


@dataclass(frozen=True)
class Unit:
    """What one unit of a buffer looks like, and how many the buffer has."""

    template: JsonObject
    """Template of its pods."""
    count: int
    exceeded: tuple[str, ...] = ()
    """ResourceQuotas that allow fewer units than the buffer asks for."""
    wanted: int = 0
    """Units without these quotas."""


def units(spec: JsonObject, template: JsonObject, replicas: int | None) -> int:
    """Return the number of units of a buffer: the smallest of what its fields allow.

    Args:
        spec: Spec of the buffer.
        template: Template of its pods.
        replicas: Replicas of the object that it refers to; None if it refers to a PodTemplate.

    Raises:
        UnprovisionableError: No field gives a number.
    """
    found: list[int] = []
    if spec.get("replicas") is not None:
        found.append(int(spec["replicas"]))
    if spec.get("percentage") is not None and replicas is not None:
        found.append(int(spec["percentage"]) * replicas // 100)
    if spec.get("limits") is not None:
        needs = requests_of(template["spec"])
        limits = {name: quantity(value) for name, value in part(spec, "limits").items()}
        fits = [int(limits[name] // needs[name]) for name in limits if needs.get(name, 0) > 0]
        if not fits:
            raise UnprovisionableError(
                "resources in configured limits not found in the pod template"
            )
        found.append(min(fits))
    if not found:
        raise UnprovisionableError("replicas, percentage and limits are not defined")
    return max(0, min(found))


def within_quota(
    template: JsonObject, wanted: int, quotas: Iterable[JsonObject]
) -> tuple[int, tuple[str, ...]]:
    """Return the units that a namespace's quotas allow, and the names of the quotas that limit."""
    needs = requests_of(template["spec"])
    allowed, exceeded = wanted, list[str]()
    for quota in quotas:
        status = part(quota, "status")
        used = part(status, "used")
        for name, hard in part(status, "hard").items():
            need = _need(name, needs)
            if not need:
                continue
            fits = max(0, int((quantity(hard) - quantity(used.get(name, 0))) // need))
            if fits < wanted:
                exceeded.append(str(quota["metadata"]["name"]))
                allowed = min(allowed, fits)
    return allowed, tuple(dict.fromkeys(exceeded))


def _need(resource: str, needs: Amounts) -> float:
    """Return how much of a quota's resource one unit uses."""
    if resource == "pods":
        return 1.0
    return needs.get(resource.removeprefix("requests."), 0.0)


def place(
    cluster: Cluster, coming: Sequence[Room], pods: Sequence[Pod]
) -> tuple[list[Pod], set[str]]:
    """Return the units without room, and the groups of nodes that hold the others.

    Args:
        cluster: Current state; pending pods have their place in its young nodes.
        coming: Nodes that were requested.
        pods: Units of all buffers.
    """
    classes = {pod.compute_class for pod in pods}
    spots = [
        (node.group, cluster.young.get(node.name) or node.room())
        for node in cluster.nodes
        if not node.item["spec"].get("unschedulable")
        and (None in classes or node.labels.get(CLASS_LABEL) in classes)
    ]
    left = pack(pods, [*(room for _, room in spots), *coming])
    return left, {group for group, room in spots if any(pod.buffer for pod in room.pods)}


class CapacityBuffers:
    """The capacity buffers of a cluster."""

    def __init__(self, ctx: ClusterContext) -> None:
        self._ctx = ctx
        self._units: dict[str, Unit] = {}
        self._read = -1e9

    def scan(self, cluster: Cluster) -> list[Pod]:
        """Return the units of all buffers as pods, and write the buffers' status when due."""
        items = {item["metadata"]["uid"]: item for item in cluster.buffers if _is_active(item)}
        self._units = {uid: unit for uid, unit in self._units.items() if uid in items}
        if items and time.monotonic() - self._read >= self._ctx.rules.scaled("buffer.reaction"):
            self._read = time.monotonic()
            for uid, item in items.items():
                self._reconcile(uid, item)
        classes = cluster.classes.keys()
        return [
            pod
            for uid, unit in self._units.items()
            for pod in virtual_pods(
                items[uid], unit, cluster.default_classes, classes, cluster.volumes
            )
        ]

    def _reconcile(self, uid: str, item: JsonObject) -> None:
        meta, spec = item["metadata"], item["spec"]
        try:
            template, replicas = self._target(meta["namespace"], spec)
            wanted = units(spec, template, replicas)
            quotas = self._ctx.kube.list(f"/api/v1/namespaces/{meta['namespace']}/resourcequotas")
            count, exceeded = within_quota(template, wanted, quotas)
            stored = self._store(item, template)
        except UnprovisionableError as error:
            self._units.pop(uid, None)
            self._write(item, {"conditions": _conditions(item, _failed(str(error)))})
            return
        self._units[uid] = Unit(template, count, exceeded, wanted)
        self._write(
            item,
            {
                "conditions": _conditions(item, _provisioned(self._units[uid])),
                "podTemplateGeneration": stored["metadata"].get("generation", 1),
                "podTemplateRef": {"name": stored["metadata"]["name"]},
                "provisioningStrategy": ACTIVE,
                "replicas": count,
            },
        )

    def _target(self, namespace: str, spec: JsonObject) -> tuple[JsonObject, int | None]:
        """Return the template that a buffer refers to, and the replicas of the object with it.

        Raises:
            UnprovisionableError: There is no such object, or its kind has no template.
        """
        if (named := part(spec, "podTemplateRef").get("name")) is not None:
            path = f"/api/v1/namespaces/{namespace}/podtemplates/{named}"
            return self._get(path, f"PodTemplate {named}")["template"], None
        ref = part(spec, "scalableRef")
        group, kind, name = ref.get("apiGroup", ""), ref["kind"], ref["name"]
        form = _SCALABLE.get((group, kind))
        if form is None:
            raise UnprovisionableError(f"kind {group}/{kind} is not supported to use pod template")
        found = self._get(form.format(namespace, name), f"{kind} {name}")
        replicas = found["spec"].get("parallelism" if kind == "Job" else "replicas", 1)
        return found["spec"]["template"], int(replicas)

    def _get(self, path: str, what: str) -> JsonObject:
        try:
            return self._ctx.kube.get(path)
        except KubeError as error:
            if error.status != 404:
                raise
            raise UnprovisionableError(f"{what} not found") from error

    def _store(self, item: JsonObject, template: JsonObject) -> JsonObject:
        """Write the PodTemplate that shows what a unit looks like, and return it.

        Raises:
            UnprovisionableError: The API server refuses it.
        """
        meta, named = item["metadata"], part(item["spec"], "podTemplateRef").get("name")
        if named is not None:
            path = f"/api/v1/namespaces/{meta['namespace']}/podtemplates/{named}"
            return self._get(path, f"PodTemplate {named}")
        owner = {"controller": True, "name": meta["name"], "uid": meta["uid"]}
        kind = api("capacity_buffer")
        owner |= {"apiVersion": kind.api_version, "kind": kind.kind}
        kept = {key: value for key, value in template["metadata"].items() if value}
        kept = {key: kept[key] for key in ("annotations", "labels") if key in kept}
        made: JsonObject = {
            "apiVersion": "v1",
            "kind": "PodTemplate",
            "metadata": {
                "name": f"capacitybuffer-{meta['name']}-pod-template",
                "namespace": meta["namespace"],
                "ownerReferences": [owner],
            },
            "template": {"metadata": kept, "spec": template["spec"]},
        }
        try:
            return self._ctx.kube.apply(made, manager=_MANAGER)
        except KubeError as error:
            what = f"Failed to create pod template object for buffer {meta['name']} with error"
            raise UnprovisionableError(f"{what}: {error}") from error

    def _write(self, item: JsonObject, status: JsonObject) -> None:
        if all(part(item, "status").get(key) == value for key, value in status.items()):
            return
        meta, kind = item["metadata"], api("capacity_buffer")
        path = (
            f"/apis/{kind.api_version}/namespaces/{meta['namespace']}"
            f"/capacitybuffers/{meta['name']}/status"
        )
        try:
            self._ctx.kube.patch(path, {"status": status})
        except KubeError as error:
            if error.status != 404:
                raise


def virtual_pods(
    item: JsonObject,
    unit: Unit,
    default_classes: Mapping[str, str | None],
    classes: Iterable[str],
    volumes: Volumes,
) -> list[Pod]:
    """Return the units of a buffer as pending pods. A claim of devices fits no node."""
    meta = item["metadata"]
    labels = text_map(part(unit.template, "metadata"), "labels")
    default = default_classes.get(meta["namespace"])
    known = list(classes)
    return [
        parse(
            {
                "metadata": {
                    "labels": labels,
                    "name": f"capacity-buffer-{meta['name']}-{number}",
                    "namespace": meta["namespace"],
                    "uid": f"{meta['uid']}-{number}",
                },
                "spec": {**unit.template["spec"], "nodeName": None},
            },
            default,
            known,
            buffer=str(meta["name"]),
            volumes=volumes,
        )
        for number in range(1, unit.count + 1)
    ]


def _is_active(item: JsonObject) -> bool:
    """Return whether a buffer keeps running nodes: the twin has no suspended ones."""
    return item["spec"].get("provisioningStrategy", ACTIVE) in {ACTIVE, ""}


def _failed(message: str) -> list[JsonObject]:
    return [
        {"type": _READY, "status": "False", "reason": "error", "message": message},
        {
            "type": _PROVISIONING,
            "status": "False",
            "reason": "NotReadyForProvisioning",
            "message": "CapacityBuffer is not ready for provisioning",
        },
    ]


def _provisioned(unit: Unit) -> list[JsonObject]:
    found: list[JsonObject] = [
        {
            "type": _READY,
            "status": "True",
            "reason": "AttributesSetSuccessfully",
            "message": "ready",
        },
        {
            "type": _PROVISIONING,
            "status": "True" if unit.count else "False",
            "reason": "FakePodsInjected" if unit.count else "BufferIsEmpty",
            "message": "" if unit.count else "CapacityBuffer has zero replicas",
        },
    ]
    if unit.exceeded:
        message = (
            f"Buffer replicas limited from {unit.wanted} to {unit.count} due to quotas: "
            f"{', '.join(unit.exceeded)}"
        )
        found.append(
            {
                "type": _LIMITED,
                "status": "True",
                "reason": "ResourceQuotasAllocated",
                "message": message,
            }
        )
    return found


def _conditions(item: JsonObject, found: list[JsonObject]) -> list[JsonObject]:
    """Return conditions with the time of their last transition."""
    before = {each["type"]: each for each in parts(part(item, "status"), "conditions")}
    made: list[JsonObject] = []
    for each in found:
        held = before.get(each["type"])
        same = held is not None and held["status"] == each["status"]
        at = held["lastTransitionTime"] if held is not None and same else timestamp()
        made.append({**each, "lastTransitionTime": at})
    return made
