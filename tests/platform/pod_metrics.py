"""Metrics of the pods of a twin, as their own servers give them."""

import urllib.request
from pathlib import Path
from typing import Any

from twin.cluster.base import podports


def metric_of(cluster: Path, pod: dict[str, Any], port: int, name: str) -> float:
    """Return a metric without labels from the page `/metrics` of a pod.

    Args:
        cluster: Folder of the cluster.
        pod: The pod.
        port: Port of the page in the pod.
        name: Name of the metric.
    """
    address, at = podports.resolve(cluster, pod, port)
    with urllib.request.urlopen(f"http://{address}:{at}/metrics", timeout=5) as answer:
        lines = answer.read().decode().splitlines()
    (value,) = (line.split()[1] for line in lines if line.startswith(f"{name} "))
    return float(value)
