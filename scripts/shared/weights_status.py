"""Models that wait for weights, as reported by the weights gates of the clusters."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from gke_inference.catalogue.hardware import KINDS
from gke_inference.serving.launcher.spec import STATE
from scripts.shared.clusters import Cluster, answering
from scripts.terminal.console import console
from scripts.terminal.where import Where
from twin.wire.kube import Kube, KubeError


@dataclass(frozen=True)
class Waiting:
    """A workload without replicas because its weights are missing."""

    model: str
    cluster: str
    workload: str
    waits_for: str

    def as_json(self) -> dict[str, str]:
        """Return its fields as `status -o json` shows them."""
        return asdict(self)


def find_waiting(clusters: Iterable[Cluster], namespace: str) -> list[Waiting]:
    """Return the workloads that wait for weights, by model, cluster and workload.

    Args:
        clusters: Clusters to look at.
        namespace: Namespace of the models.

    Raises:
        CommandError: A cluster does not answer.
    """
    found: list[Waiting] = []
    for cluster in clusters:
        with answering(cluster) as kube:
            states = _states(kube, namespace)
        for name, state in states.items():
            if not state.get("open"):
                found.append(
                    Waiting(_model_of(name), cluster.name, name, str(state.get("waits_for", "")))
                )
    return sorted(found, key=lambda one: (one.model, one.cluster, one.workload))


def _model_of(workload: str) -> str:
    for kind in KINDS:
        workload = workload.removesuffix(f"-{kind}")
    return workload


def _states(kube: Kube, namespace: str) -> dict[str, dict[str, Any]]:
    try:
        answer = kube.get(f"/api/v1/namespaces/{namespace}/configmaps/{STATE}")
    except KubeError as error:
        if error.status == 404:
            return {}
        raise
    texts: dict[str, str] = answer.get("data") or {}
    return {name: json.loads(text) for name, text in texts.items()}


def print_waiting(found: list[Waiting], stack: str, where: Where = Where.TWIN) -> None:
    """Print the waiting workloads, and the command that pushes weights."""
    for one in found:
        line = f"{one.workload} in {one.cluster}: no replica, waiting for weights: {one.waits_for}"
        console.print(line, soft_wrap=True, markup=False)
    if found:
        command = f"gke-inference models push --stack {stack}{where.option} --model MODEL FOLDER"
        console.print(
            f"Push them with {command}; the models then start automatically.\n", markup=False
        )
