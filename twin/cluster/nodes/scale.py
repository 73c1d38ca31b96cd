"""Scale check that creates many nodes, then many pods, and waits until all are Ready."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from twin.cluster.base.context import ClusterContext
from twin.cluster.base.fields import part, parts
from twin.cluster.nodes import node_objects as nodes
from twin.cluster.nodes.node_objects import NodeShape
from twin.cluster.nodes.pools import is_ready
from twin.wire.kube import JsonObject, Kube, KubeError
from twin.world.machines import machine

_NAMESPACE = "scale-check"
_POOL = "scale-check"
_DEPLOYMENTS = 4
_CHIPS = 2
_WORKERS = 8
_POLL_SECONDS = 0.25


@dataclass(frozen=True)
class ScaleResult:
    """Wall-clock seconds of each phase."""

    nodes: int
    pods: int
    nodes_ready: float
    pods_ready: float
    cleaned_up: float


def check(
    ctx: ClusterContext,
    node_count: int = 1000,
    pod_count: int = 2000,
    timeout: float = 300.0,
    progress: Callable[[str], None] | None = None,
) -> ScaleResult:
    """Create nodes with four TPU chips each and pods that request two, measure, and remove them.

    The nodes are outside every pool and class, so the autoscaler ignores them.

    Raises:
        TimeoutError: A phase did not end in time.
    """
    say = progress or _silent
    try:
        started = time.monotonic()
        names = _create_nodes(ctx, node_count)
        created = time.monotonic() - started
        say(f"{node_count} nodes created in {created:.1f} s")
        wait_for_nodes(ctx.kube, node_count, timeout)
        ready = time.monotonic() - started
        say(f"{node_count} nodes ready in {ready:.1f} s")
        started = time.monotonic()
        _create_pods(ctx, pod_count)
        _wait("pods ready", lambda: _ready_pods(ctx) >= pod_count, timeout)
        running = time.monotonic() - started
        say(f"{pod_count} pods ready in {running:.1f} s")
    finally:
        started = time.monotonic()
        _clean_up(ctx, timeout)
    cleaned = time.monotonic() - started
    say(f"removed in {cleaned:.1f} s")
    return ScaleResult(len(names), pod_count, ready, running, cleaned)


def _silent(message: str) -> None:
    del message


def _create_nodes(ctx: ClusterContext, count: int) -> list[str]:
    shape = NodeShape(machine=machine("ct6e-standard-4t"), pool=_POOL, topology="2x2")
    zones = ctx.spec.zones
    names = [f"scale-check-{number:05d}" for number in range(count)]

    def create(number: int) -> None:
        body = nodes.build(
            shape, name=names[number], zone=zones[number % len(zones)], project=ctx.spec.project
        )
        ctx.kube.post("/api/v1/nodes", body)

    with ThreadPoolExecutor(_WORKERS) as pool:
        list(pool.map(create, range(count)))
    return names


def _create_pods(ctx: ClusterContext, count: int) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}}
    ctx.kube.post("/api/v1/namespaces", namespace)
    for number in range(_DEPLOYMENTS):
        replicas = count // _DEPLOYMENTS + (number < count % _DEPLOYMENTS)
        ctx.kube.post(
            f"/apis/apps/v1/namespaces/{_NAMESPACE}/deployments", _deployment(number, replicas)
        )


def _deployment(number: int, replicas: int) -> JsonObject:
    name = f"scale-{number}"
    resources = {
        "requests": {"cpu": "1", "memory": "1Gi"},
        "limits": {"google.com/tpu": str(_CHIPS)},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "nodeSelector": {nodes.POOL_LABEL: _POOL},
                    "containers": [
                        {"name": "pause", "image": "pause", "resources": resources},
                    ],
                },
            },
        },
    }


def wait_for_nodes(kube: Kube, count: int, timeout: float) -> None:
    """Watch the nodes of the check until enough of them can accept pods.

    Listing a thousand nodes repeatedly would load the API server and distort the measurement.

    Raises:
        TimeoutError: Too few nodes were ready in time.
    """
    end = time.monotonic() + timeout
    ready: set[str] = set()
    stop = threading.Event()
    label = f"{nodes.POOL_LABEL}={_POOL}"
    for kind, node in kube.watch("/api/v1/nodes", stop, label_selector=label):
        if kind in {"ADDED", "MODIFIED"}:
            change = ready.add if _takes_pods(node) else ready.discard
            change(node["metadata"]["name"])
        if len(ready) >= count:
            return
        if time.monotonic() > end:
            raise TimeoutError(f"nodes ready: {len(ready)} after {timeout:.0f} s")


def _takes_pods(node: JsonObject) -> bool:
    taints = parts(node["spec"], "taints")
    return is_ready(node) and not any(
        taint["key"].startswith("node.kubernetes.io/") for taint in taints
    )


def _ready_pods(ctx: ClusterContext) -> int:
    listed = ctx.kube.list(f"/apis/apps/v1/namespaces/{_NAMESPACE}/deployments")
    return sum(int(part(item, "status").get("readyReplicas", 0)) for item in listed)


def _wait(what: str, done: Callable[[], bool], timeout: float) -> None:
    end = time.monotonic() + timeout
    while not done():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not after {timeout:.0f} s")
        time.sleep(_POLL_SECONDS)


def _clean_up(ctx: ClusterContext, timeout: float) -> None:
    kube = ctx.kube
    try:
        kube.delete(f"/api/v1/namespaces/{_NAMESPACE}")
    except KubeError as error:
        if error.status != 404:
            raise
    path = f"/api/v1/namespaces/{_NAMESPACE}/pods"
    _wait("pods removed", lambda: not kube.get(path, limit=1)["items"], timeout)
    names: list[str] = [
        item["metadata"]["name"]
        for item in kube.list("/api/v1/nodes", label_selector=f"{nodes.POOL_LABEL}={_POOL}")
    ]
    with ThreadPoolExecutor(_WORKERS) as pool:
        list(pool.map(kube.delete, [f"/api/v1/nodes/{name}" for name in names]))
    gone = f"/api/v1/namespaces?fieldSelector=metadata.name={_NAMESPACE}"
    _wait("namespace removed", lambda: not kube.list(gone), timeout)
