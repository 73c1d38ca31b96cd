"""Capacity buffers: whether the nodes that GKE keeps for a model exist and are empty."""

from collections.abc import Iterator

from gke_inference.catalogue.versions import api
from gke_inference.serving.pod_spec import MODEL_LABEL
from infra.plan import ServedModel
from scripts.accept.deployed import Cluster, Deployed, Object, seen
from scripts.accept.placement import nodes
from scripts.accept.row import Row, Subject
from scripts.shared.placements import is_on


def buffers(deployed: Deployed) -> Iterator[Row]:
    """Yield whether each capacity buffer has its nodes; models of one capacity share them."""
    for region, cluster in deployed.clusters.items():
        taken: set[str] = set()
        for served in deployed.plan.regions[region].served:
            if not served.buffer:
                continue
            name = f"{served.name} in {region}"
            subject = Subject("buffer", name, f"empty nodes for {served.buffer} replicas")
            yield seen(subject, lambda s=subject, c=cluster, m=served, t=taken: _kept(s, c, m, t))


def _kept(subject: Subject, cluster: Cluster, served: ServedModel, taken: set[str]) -> Row:
    kind = api("capacity_buffer")
    name = next(iter(served.deployments.values()))
    path = f"/apis/{kind.api_version}/namespaces/{served.namespace}/capacitybuffers/{name}"
    status: Object = cluster.api.get(path).get("status") or {}
    conditions: list[Object] = status.get("conditions") or []
    for condition in conditions:
        if condition["type"] == "ReadyForProvisioning" and condition["status"] != "True":
            return subject.not_met(str(condition.get("message") or condition["reason"]))
    if int(status.get("replicas") or 0) < served.buffer:
        return subject.not_met(f"GKE keeps nodes for {status.get('replicas') or 0}")
    used = {
        str(pod["spec"].get("nodeName", ""))
        for pod in cluster.api.list("/api/v1/pods", MODEL_LABEL)
    }
    empty = [
        name
        for name, node in nodes(cluster).items()
        if name not in used | taken
        and _is_ready(node)
        and any(is_on(rung, node["metadata"]["labels"]) for rung in served.buffer_rungs.values())
    ]
    taken.update(empty[: served.buffer])
    return subject.judged(f"{len(empty)} empty nodes", is_met=len(empty) >= served.buffer)


def _is_ready(node: Object) -> bool:
    conditions: list[Object] = node.get("status", {}).get("conditions") or []
    is_ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return is_ready and not node["spec"].get("unschedulable")
