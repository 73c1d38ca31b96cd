"""`gke-inference bench gateway`: what the gateway adds to a request, and how soon it obeys.

It measures the gateway of the stack that is up, with the real Envoy, body-based router and picker
in the path, one client on one connection.
"""

import http.client
import json
import statistics
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from gke_inference.catalogue.versions import api
from scripts.console import CommandError
from scripts.placements import COMPONENT_LABEL
from twin.cluster import lifecycle as clusters
from twin.cluster.base.context import ClusterSpec
from twin.host.paths import TwinPaths
from twin.wire.kube import JsonObject, Kube

Row = dict[str, Any]
_REQUESTS = 300
_WARM_UP = 30
_CHANGES = 100
_LIMIT_SECONDS = 30.0
_ROUTE = "bench-gateway"
_API = api("gateway").api_version
_GATEWAYS = f"/apis/{_API}/gateways"


@dataclass(frozen=True)
class Target:
    """The gateway that is measured, a replica behind it, and a model that this replica serves."""

    kube: Kube
    namespace: str
    gateway: str
    address: str
    port: int
    replica: str
    replica_port: int
    model: str


def target(paths: TwinPaths) -> Target:
    """Return the first gateway of the twin and a ready replica behind it.

    Raises:
        CommandError: there is none; with what to do.
    """
    for folder in clusters.folders(paths):
        spec = ClusterSpec.load(folder)
        kube = Kube(clusters.handle(spec.location, spec.name, paths).kubeconfig)
        gateways = kube.list(_GATEWAYS)
        pods = kube.list("/api/v1/pods", label_selector=f"{COMPONENT_LABEL}=model-server")
        ready = [pod for pod in pods if _is_ready(pod)]
        if gateways and ready:
            gateway, pod = gateways[0], ready[0]
            container: JsonObject = pod["spec"]["containers"][0]
            return Target(
                kube=kube,
                namespace=gateway["metadata"]["namespace"],
                gateway=gateway["metadata"]["name"],
                address=gateway["status"]["addresses"][0]["value"],
                port=gateway["spec"]["listeners"][0]["port"],
                replica=pod["status"]["podIP"],
                replica_port=container["ports"][0]["containerPort"],
                model=_served_name(container),
            )
    raise CommandError("gateway: must have a ready replica behind it, got none; run make up first")


def _is_ready(pod: JsonObject) -> bool:
    conditions: list[JsonObject] = pod.get("status", {}).get("conditions") or []
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _served_name(container: JsonObject) -> str:
    words = [*container.get("command", []), *container.get("args", [])]
    found = [word for word in words if word.startswith("--served-model-name=")]
    return found[0].partition("=")[2]


def percentiles(seconds: list[float]) -> tuple[float, float]:
    """Return the 50th and the 99th percentile, in milliseconds to a hundredth."""
    cuts = statistics.quantiles(seconds, n=100, method="inclusive")
    return round(1000 * cuts[49], 2), round(1000 * cuts[98], 2)


def _asking(connection: http.client.HTTPConnection, model: str) -> Callable[[], float]:
    body = json.dumps({"model": model, "prompt": "Hello", "max_tokens": 1})
    headers = {"Content-Type": "application/json"}

    def ask() -> float:
        begun = time.perf_counter()
        connection.request("POST", "/v1/completions", body, headers)
        answer = connection.getresponse()
        text = answer.read()
        if answer.status != http.client.OK:
            where = f"{connection.host}:{connection.port}"
            raise CommandError(f"{where}: HTTP {answer.status} {text[:200]!r}")
        return time.perf_counter() - begun

    return ask


def hop(found: Target) -> list[Row]:
    """Measure answers of one token, straight from a replica and through the gateway, in turn."""
    direct = http.client.HTTPConnection(found.replica, found.replica_port, timeout=60)
    through = http.client.HTTPConnection(found.address, found.port, timeout=60)
    with closing(direct), closing(through):
        ways = {"replica": _asking(direct, found.model), "gateway": _asking(through, found.model)}
        taken: dict[str, list[float]] = {way: [] for way in ways}
        for number in range(_WARM_UP + _REQUESTS):
            for way, ask in ways.items():
                seconds = ask()
                if number >= _WARM_UP:
                    taken[way].append(seconds)
    rows: list[Row] = []
    for way, seconds in taken.items():
        p50, p99 = percentiles(seconds)
        rows.append({"what": f"one token, {way}", "n": _REQUESTS, "p50_ms": p50, "p99_ms": p99})
    added = {key: round(rows[1][key] - rows[0][key], 2) for key in ("p50_ms", "p99_ms")}
    return [*rows, {"what": "gateway hop (difference)", "n": _REQUESTS, **added}]


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
    """Measure from sending a changed route to the API server to the first answer it decides."""
    connection = http.client.HTTPConnection(found.address, found.port, timeout=60)

    def status(number: int) -> int:
        connection.request("GET", f"/{_ROUTE}/{number}")
        answer = connection.getresponse()
        answer.read()
        return answer.status

    taken: list[float] = []
    try:
        for number in range(_CHANGES):
            begun = time.perf_counter()
            found.kube.apply(_redirect(found, number), manager="bench")
            while status(number) != http.client.FOUND:
                if time.perf_counter() - begun > _LIMIT_SECONDS:
                    raise CommandError(f"the gateway does not follow a route: {_ROUTE}/{number}")
                time.sleep(0.002)
            taken.append(time.perf_counter() - begun)
    finally:
        connection.close()
        path = found.kube.path_of(_API, "HTTPRoute", found.namespace, _ROUTE)
        found.kube.delete(path)
    p50, p99 = percentiles(taken)
    worst = round(1000 * max(taken), 2)
    what = "a changed route takes effect"
    return [{"what": what, "n": _CHANGES, "p50_ms": p50, "p99_ms": p99, "max_ms": worst}]


def bench_gateway(paths: TwinPaths) -> list[Row]:
    """Return all rows.

    Raises:
        CommandError: nothing is up, or it refuses.
    """
    found = target(paths)
    return [*hop(found), *obey(found)]
