"""`bench gateway`: the latency of the gateway, and the delay of a route change.

It measures the gateway of the stack that is up, with the real Envoy, body router and picker
in the path, and one client on one connection to each.
"""

import http.client
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.latency.hop import AccessLog, KeepAlive, Pairs, percentiles
from gke_inference.catalogue.versions import api
from scripts.shared.placements import COMPONENT_LABEL
from scripts.terminal.console import CommandError
from twin.cluster import lifecycle as clusters
from twin.cluster.base import podports
from twin.cluster.base.context import ClusterSpec
from twin.host.paths import TwinPaths
from twin.wire.kube import JsonObject, Kube

Row = dict[str, Any]
_PAIRS = 300
_CHANGES = 100
_LIMIT_SECONDS = 30.0
_ROUTE = "bench-gateway"
_API = api("gateway").api_version
_GATEWAYS = f"/apis/{_API}/gateways"


@dataclass(frozen=True)
class Target:
    """The measured gateway and the replicas behind it."""

    kube: Kube
    cluster: Path
    """Folder of the cluster."""
    namespace: str
    gateway: str
    address: str
    port: int
    replicas: Mapping[str, str]
    """Model by endpoint `ADDRESS:PORT` of a ready replica."""


def target(paths: TwinPaths) -> Target:
    """Return the first gateway of the twin and the ready replicas behind it.

    Raises:
        CommandError: There is none; the message names the fix.
    """
    for folder in clusters.folders(paths):
        spec = ClusterSpec.load(folder)
        kube = Kube(clusters.handle(spec.location, spec.name, paths).kubeconfig)
        gateways = kube.list(_GATEWAYS)
        pods = kube.list("/api/v1/pods", label_selector=f"{COMPONENT_LABEL}=model-server")
        replicas = dict(_replica(folder, pod) for pod in pods if _is_ready(pod))
        if gateways and replicas:
            gateway = gateways[0]
            return Target(
                kube=kube,
                cluster=folder,
                namespace=gateway["metadata"]["namespace"],
                gateway=gateway["metadata"]["name"],
                address=gateway["status"]["addresses"][0]["value"],
                port=gateway["spec"]["listeners"][0]["port"],
                replicas=replicas,
            )
    raise CommandError("gateway: must have a ready replica behind it, got none; run make up first")


def _replica(folder: Path, pod: JsonObject) -> tuple[str, str]:
    """Return the endpoint of a replica, and its model."""
    container: JsonObject = pod["spec"]["containers"][0]
    address, port = podports.resolve(folder, pod, container["ports"][0]["containerPort"])
    return f"{address}:{port}", _served_name(container)


def _is_ready(pod: JsonObject) -> bool:
    conditions: list[JsonObject] = pod.get("status", {}).get("conditions") or []
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _served_name(container: JsonObject) -> str:
    words = [*container.get("command", []), *container.get("args", [])]
    found = [word for word in words if word.startswith("--served-model-name=")]
    return found[0].partition("=")[2]


def hop(found: Target) -> list[Row]:
    """Measure one-token answers, directly from a replica and through the gateway, in turn."""
    log = AccessLog(found.cluster)
    pairs = Pairs((found.address, found.port), found.replicas, log.find)
    rows = pairs.measure(_PAIRS).rows()
    rows[-1]["load_1m"] = round(os.getloadavg()[0], 1)  # a busy machine is in every figure
    return rows


def _redirect(found: Target, number: int) -> JsonObject:
    rule = {
        "matches": [{"path": {"type": "Exact", "value": f"/{_ROUTE}/{number}"}}],
        "filters": [
            {
                "type": "RequestRedirect",
                "requestRedirect": {"statusCode": 302, "hostname": "example.com"},
            }
        ],
    }
    return {
        "apiVersion": _API,
        "kind": "HTTPRoute",
        "metadata": {"name": _ROUTE, "namespace": found.namespace},
        "spec": {"parentRefs": [{"name": found.gateway}], "rules": [rule]},
    }


def obey(found: Target) -> list[Row]:
    """Measure the time from a route change to the first answer that follows it."""
    connection = KeepAlive(found.address, found.port)
    taken: list[float] = []
    try:
        for number in range(_CHANGES):
            begun = time.perf_counter()
            found.kube.apply(_redirect(found, number), manager="bench")
            while connection.ask("GET", f"/{_ROUTE}/{number}").status != http.client.FOUND:
                if time.perf_counter() - begun > _LIMIT_SECONDS:
                    raise CommandError(f"the gateway does not follow a route: {_ROUTE}/{number}")
                time.sleep(0.002)
            taken.append(time.perf_counter() - begun)
    finally:
        connection.close()
        path = found.kube.path_of(_API, "HTTPRoute", found.namespace, _ROUTE)
        found.kube.delete(path)
    p50, p99 = percentiles(taken)
    row = {"what": "a changed route takes effect", "n": _CHANGES, "p50_ms": p50, "p99_ms": p99}
    worst = round(1000 * max(taken), 2)
    return [{**row, "max_ms": worst, "reconnects": connection.reconnects}]


def bench_gateway(paths: TwinPaths) -> list[Row]:
    """Return all rows.

    Raises:
        CommandError: nothing is up, or it refuses.
    """
    found = target(paths)
    return [*hop(found), *obey(found)]
