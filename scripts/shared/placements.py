"""Placement of engine pods: cluster, rung and hourly cost."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from gke_inference.catalogue.accelerators import Accelerator, catalogue_labels, names_by_gke_type
from gke_inference.catalogue.hardware import CPU, hardware
from gke_inference.catalogue.machine_types import rung_families
from gke_inference.catalogue.quotas import family_of
from gke_inference.catalogue.rungs import Rung
from planner.amount import Amount
from planner.choice.cost import amount_of, machine_price
from scripts.shared.clusters import Cluster, of_twin
from twin.host.paths import TwinPaths

COMPONENT_LABEL = "app.kubernetes.io/component"
MODEL_LABEL = "app.kubernetes.io/name"
_ENGINE = "model-server"
_WAITS = "waits for a node"
_AT_REST = ("ready", _WAITS)
_TPU, _GPU = "cloud.google.com/gke-tpu-accelerator", "cloud.google.com/gke-accelerator"
_MACHINE = "node.kubernetes.io/instance-type"
_TOPOLOGY = "cloud.google.com/gke-tpu-topology"
_CLASS = catalogue_labels()["compute_class"]


@dataclass(frozen=True)
class Placement:
    """One replica and the node under it."""

    model: str
    cluster: str
    pod: str
    state: str
    """`ready`, or the reason why it is not."""
    rung: str
    """Accelerator, shape and provisioning, or machine and provisioning; empty without a node."""
    zone: str
    usd_per_hour: Amount | None
    """List price of the node, with its unpriced parts; None while there is no node."""

    def as_json(self) -> dict[str, Any]:
        """Return its fields as `status -o json` shows them."""
        paid = self.usd_per_hour
        return {
            **asdict(self),
            "usd_per_hour": None if paid is None or paid.is_unknown else paid.value,
            "missing": [] if paid is None else [str(one) for one in paid.missing],
        }


def _hardware_of(labels: dict[str, str]) -> Accelerator | None:
    """Return a node's accelerator, or the family of one in a compute class that has none."""
    wanted = labels.get(_TPU) or labels.get(_GPU)
    if wanted is not None:
        name = names_by_gke_type().get(wanted)
        return None if name is None else hardware(name)
    family = family_of(labels.get(_MACHINE, ""))
    return hardware(family) if _CLASS in labels and family in rung_families() else None


def provisioning_of(labels: Mapping[str, str]) -> str:
    """Return the provisioning of a node by its labels."""
    if labels.get("cloud.google.com/gke-spot") == "true":
        return "spot"
    if labels.get("cloud.google.com/gke-flex-start") == "true":
        return "flex-start"
    return "reservation" if labels.get("cloud.google.com/reservation-name") else "on-demand"


def is_on(rung: Rung, labels: Mapping[str, str]) -> bool:
    """Return whether a node with the given labels belongs to a rung."""
    chip = next((labels[key] for key in (_TPU, _GPU) if key in labels), None)
    bought = "reservation" if rung.provisioning == "calendar" else rung.provisioning
    return (
        chip == (rung.gke_type if rung.chips else None)
        and labels.get(_MACHINE) == rung.machine_type
        and (rung.topology is None or labels.get(_TOPOLOGY) == rung.topology)
        and provisioning_of(labels) == bought
    )


def _state(pod: dict[str, Any]) -> str:
    status: dict[str, Any] = pod.get("status", {})
    if pod["metadata"].get("deletionTimestamp"):
        return "ending"
    conditions = {item["type"]: item for item in status.get("conditions", [])}
    if conditions.get("Ready", {}).get("status") == "True":
        return "ready"
    if conditions.get("PodScheduled", {}).get("status") == "False":
        return _WAITS
    for container in status.get("containerStatuses", []):
        if waiting := container.get("state", {}).get("waiting"):
            return str(waiting.get("reason", "waiting"))
    return str(status.get("phase", "")).lower() or "unknown"


def _placement(cluster: Cluster, pod: dict[str, Any], node: dict[str, Any]) -> Placement:
    labels: dict[str, str] = node.get("metadata", {}).get("labels", {})
    chip = _hardware_of(labels)
    rung, cost = "", None
    if chip is not None:
        provisioning = provisioning_of(labels)
        machine = labels[_MACHINE]
        shape = labels.get(_TOPOLOGY) or machine
        rung = (
            f"{shape} {provisioning}" if chip.kind == CPU else f"{chip.name} {shape} {provisioning}"
        )
        cost = amount_of(
            machine_price(chip.name, cluster.region, provisioning, machine), rung, cluster.region
        )
    return Placement(
        model=pod["metadata"]["labels"].get(MODEL_LABEL, ""),
        cluster=cluster.name,
        pod=pod["metadata"]["name"],
        state=_state(pod),
        rung=rung,
        zone=labels.get("topology.kubernetes.io/zone", ""),
        usd_per_hour=cost,
    )


def placements(clusters: Iterable[Cluster]) -> list[Placement]:
    """Return every engine pod of clusters, by model, cluster and name.

    Raises:
        KubeError: A cluster does not answer.
    """
    found = [one for cluster in clusters for one in placements_in(cluster)]
    return sorted(found, key=lambda one: (one.model, one.cluster, one.pod))


def placements_in(cluster: Cluster, namespace: str | None = None) -> list[Placement]:
    """Return every engine pod of a cluster, or of one namespace, in the cluster's order.

    Raises:
        KubeError: The cluster does not answer.
    """
    nodes = {node["metadata"]["name"]: node for node in cluster.kube.list("/api/v1/nodes")}
    path = "/api/v1/pods" if namespace is None else f"/api/v1/namespaces/{namespace}/pods"
    pods = cluster.kube.list(path, label_selector=f"{COMPONENT_LABEL}={_ENGINE}")
    return [
        _placement(cluster, pod, nodes.get(pod["spec"].get("nodeName", ""), {})) for pod in pods
    ]


def settled(paths: TwinPaths, timeout: float, quiet: float = 0.0) -> bool:
    """Wait until no replica is starting and nothing has changed for `quiet` seconds.

    Args:
        paths: Paths of the twin.
        timeout: Maximum wait, in seconds.
        quiet: Required time without a change, in seconds.

    Returns:
        False if replicas were still starting after `timeout`.

    Raises:
        KubeError: A cluster does not answer.
    """
    until = time.monotonic() + timeout
    before: list[Placement] | None = None
    since = time.monotonic()
    while time.monotonic() < until:
        now = placements(of_twin(paths))
        if now != before or any(one.state not in _AT_REST for one in now):
            before, since = now, time.monotonic()
        elif time.monotonic() - since >= quiet:
            return True
        time.sleep(0.3)
    return False
