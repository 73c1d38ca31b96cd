"""metrics.k8s.io, from which `kubectl top` reads, as GKE's metrics-server serves it.

A container has a value once its process was there at two looks. A pod without processes on the
twin has none, and a node the sum of its pods.
"""

import json
import re
import threading
import time
from dataclasses import dataclass, field

from twin.cluster.base.api_extension import ApiExtension, ApiGroup, ApiResource
from twin.cluster.base.context import ClusterContext
from twin.cluster.base.reports import timestamp
from twin.cluster.metrics_api import usage
from twin.wire.kube import JsonObject, KubeError

_VERBS = ("get", "list")
_GROUP = ApiGroup(
    "metrics.k8s.io",
    "v1beta1",
    "pods",
    "PodMetrics",
    (
        ApiResource("nodes", "NodeMetrics", _VERBS, is_namespaced=False),
        ApiResource("pods", "PodMetrics", _VERBS),
    ),
    is_adapter=False,
)
_NODES = re.compile(rf"^/apis/{_GROUP.group_version}/nodes(?:/(?P<name>[^/]+))?$")
_PODS = re.compile(
    rf"^/apis/{_GROUP.group_version}(?:/namespaces/(?P<ns>[^/]+))?/pods(?:/(?P<name>[^/]+))?$"
)
_SHORTEST_SECONDS = 2.0  # of real time: each look reads all processes of the machine
Key = tuple[str, str]
"""Namespace and name of a pod."""
Containers = dict[str, usage.Usage]
"""Usage of a pod by container."""


@dataclass(frozen=True)
class Look:
    """Usage of all containers at one time."""

    time: float
    window: float
    pods: dict[Key, dict[str, usage.Usage]] = field(
        default_factory=dict[Key, dict[str, usage.Usage]]
    )


class Sampler:
    """Looks at the processes of a cluster's containers."""

    def __init__(self, ctx: ClusterContext) -> None:
        self._folder = ctx.dir
        self._before: tuple[float, dict[int, usage.Process]] | None = None
        self.last: Look | None = None
        """Latest result; None before the second look."""

    def look(self) -> None:
        """Measure the usage since the look before."""
        at, processes = time.monotonic(), usage.running()
        if self._before is not None:
            since, before = self._before
            self.last = Look(time.time(), at - since, self._usages(before, processes, at - since))
        self._before = at, processes

    def _usages(
        self, before: dict[int, usage.Process], now: dict[int, usage.Process], seconds: float
    ) -> dict[Key, Containers]:
        found: dict[Key, Containers] = {}
        for file in (self._folder / "pods").glob("*/*/*.process.json"):
            try:
                name: str = json.loads((file.parent / "pod.json").read_text())["name"]
                record = json.loads(file.read_text())
            except (FileNotFoundError, ValueError):  # it has ended
                continue
            pid, started = int(record["pid"]), record["started"]
            if not all(pid in look and look[pid].started == started for look in (before, now)):
                continue
            container = file.name.removesuffix(".process.json")
            pids = usage.tree(pid, now)
            pod = found.setdefault((file.parent.parent.name, name), {})
            pod[container] = usage.usage(pids, before, now, seconds)
        return found


class ResourceMetrics:
    """The API of one cluster."""

    def __init__(self, ctx: ClusterContext) -> None:
        self._kube = ctx.kube
        self._sampler = Sampler(ctx)
        self._seconds = max(_SHORTEST_SECONDS, ctx.rules.scaled("metrics.resource"))
        self._server = ApiExtension(ctx, _GROUP, self.answer)

    def run(self, stop: threading.Event) -> None:
        """Serve and measure until `stop` is set."""
        measuring = threading.Thread(target=self._measure, args=(stop,), name="resource-metrics")
        measuring.start()
        self._server.run(stop)
        measuring.join(5.0)

    def _measure(self, stop: threading.Event) -> None:
        while not stop.is_set():
            self._sampler.look()
            stop.wait(self._seconds)

    def answer(self, path: str, query: dict[str, str]) -> JsonObject | None:
        """Return the answer to a request; None for an unknown resource or object."""
        look = self._sampler.last or Look(time.time(), self._seconds)
        if (match := _NODES.match(path)) is not None:
            items = self._nodes(look, query)
        elif (match := _PODS.match(path)) is not None:
            items = self._pods(look, match["ns"], query)
        else:
            return None
        if match["name"]:
            return next((each for each in items if each["metadata"]["name"] == match["name"]), None)
        kind = items_kind(path)
        return {**_meta(kind), "metadata": {}, "items": items}

    def _pods(self, look: Look, namespace: str | None, query: dict[str, str]) -> list[JsonObject]:
        path = f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods"
        return [
            {
                **_meta("PodMetrics"),
                **_times(look, pod),
                "containers": [
                    {"name": name, "usage": quantities([found])}
                    for name, found in sorted(look.pods[key].items())
                ],
            }
            for pod in self._listed(path, query)
            if (key := _key(pod)) in look.pods
        ]

    def _nodes(self, look: Look, query: dict[str, str]) -> list[JsonObject]:
        of_node: dict[str, list[usage.Usage]] = {}
        for pod in self._listed("/api/v1/pods", {}):
            used = look.pods.get(_key(pod), {}).values()
            of_node.setdefault(pod["spec"].get("nodeName", ""), []).extend(used)
        return [
            {
                **_meta("NodeMetrics"),
                **_times(look, node),
                "usage": quantities(of_node.get(node["metadata"]["name"], [])),
            }
            for node in self._listed("/api/v1/nodes", query)
        ]

    def _listed(self, path: str, query: dict[str, str]) -> list[JsonObject]:
        try:
            return self._kube.list(path, query.get("labelSelector"), query.get("fieldSelector"))
        except KubeError as error:
            raise ValueError(str(error)) from error


def items_kind(path: str) -> str:
    """Return the kind of a list by its path."""
    return "NodeMetricsList" if _NODES.match(path) else "PodMetricsList"


def quantities(found: list[usage.Usage]) -> dict[str, str]:
    """Return the sum of some usages as quantities: nanocores and KiB, as metrics-server writes."""
    cores = sum(each.cores for each in found)
    resident = sum(each.resident_bytes for each in found)
    return {"cpu": f"{round(cores * 1e9)}n", "memory": f"{resident // 1024}Ki"}


def _key(pod: JsonObject) -> Key:
    return pod["metadata"]["namespace"], pod["metadata"]["name"]


def _meta(kind: str) -> JsonObject:
    return {"kind": kind, "apiVersion": _GROUP.group_version}


def _times(look: Look, item: JsonObject) -> JsonObject:
    kept = ("name", "namespace", "labels", "creationTimestamp")
    metadata = {key: value for key, value in item["metadata"].items() if key in kept}
    return {
        "metadata": metadata,
        "timestamp": timestamp(look.time),
        "window": f"{look.window:.3f}s",
    }
