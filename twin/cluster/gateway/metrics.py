"""Metrics that AutoscalingMetrics export from the replicas of a pool."""

import http.client
import re
import statistics
from typing import Final

from twin.cluster.gateway.translation.fleet import Pool
from twin.cluster.gateway.translation.objects import JsonObject, Snapshot, items, mapping

_TIMEOUT_SECONDS: Final = 2.0


def average(snapshot: Snapshot, pool: Pool) -> dict[str, float]:
    """Return the exported metrics of a pool, averaged over its ready replicas."""
    namespace, name = pool
    obj = snapshot.get("InferencePool", namespace, name)
    if obj is None:
        return {}
    pods = snapshot.ready_pods(namespace, mapping(obj["spec"]["selector"], "matchLabels"))
    chosen = {pod["metadata"]["name"] for pod in pods}
    values: dict[str, list[float]] = {}
    for metric in snapshot.all("AutoscalingMetric"):
        spec = metric["spec"]
        if metric["metadata"]["namespace"] != namespace:
            continue
        for pod in snapshot.ready_pods(
            namespace, mapping(mapping(spec, "selector"), "matchLabels")
        ):
            if pod["metadata"]["name"] not in chosen:
                continue
            for endpoint in items(spec, "endpoints"):
                for exported, value in _read(snapshot, pod, endpoint).items():
                    values.setdefault(exported, []).append(value)
    return {exported: statistics.fmean(found) for exported, found in values.items()}


def _read(snapshot: Snapshot, pod: JsonObject, endpoint: JsonObject) -> dict[str, float]:
    """Return the exported metrics of a replica; none if it does not answer."""
    address, port = snapshot.port_of(pod, int(endpoint["port"]))
    connection = http.client.HTTPConnection(address, port, timeout=_TIMEOUT_SECONDS)
    try:
        connection.request("GET", endpoint.get("path", "/metrics"))
        text = connection.getresponse().read().decode(errors="replace")
    except (OSError, http.client.HTTPException):
        return {}
    finally:
        connection.close()
    found: dict[str, float] = {}
    for metric in endpoint["metrics"]:
        value = value_of(text, metric["name"])
        if value is not None:
            found[metric.get("exportName", metric["name"])] = value
    return found


def value_of(text: str, name: str) -> float | None:
    """Return the value of a gauge in Prometheus' text format; the first one with any labels."""
    found = re.search(rf"^{re.escape(name)}(?:\{{[^\n]*\}})? (\S+)", text, re.MULTILINE)
    return None if found is None else float(found[1])
