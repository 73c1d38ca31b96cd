"""Prefill and decode replicas that scale apart: a real autoscaler, adapter and Prometheus."""

import http.server
import threading
from dataclasses import dataclass
from typing import Any

import pytest

from gke_inference.intent.replicas import ReplicaRange
from gke_inference.observability.monitoring import pod_monitoring
from gke_inference.serving.autoscaling import AutoscalingArgs, Signal, autoscaler
from gke_inference.serving.disaggregation import ROLE_LABEL
from gke_inference.serving.settings import ScalingTargets

pytestmark = pytest.mark.needs_tools

NAMESPACE = "halved"
SIGNALS: dict[str, Signal] = {"decode": "kv-cache", "prefill": "queue"}


@dataclass
class Load:
    """What the engine of a replica reports."""

    waiting: int = 0
    kv_cache: float = 0.0

    def page(self) -> str:
        """Return the page of metrics."""
        series = {
            "vllm:num_requests_waiting": self.waiting,
            "vllm:num_requests_running": 4,
            "vllm:kv_cache_usage_perc": self.kv_cache,
        }
        lines = (
            f'# TYPE {name} gauge\n{name}{{engine="0",model_name="m"}} {value}'
            for name, value in series.items()
        )
        return "\n".join([*lines, ""])


def served(roles: "Roles", role: str, address: str, port: int) -> http.server.HTTPServer:
    """Serve the metrics of a role's replica at an address of its own."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(roles.load[role].page().encode())

        def log_message(self, format, *args):  # noqa: A002 - the base's name
            del format, args

    server = http.server.ThreadingHTTPServer((address, port), Page)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    return server


def deployment(role: str) -> dict[str, Any]:
    """Return a Deployment whose pods no node takes: the test says that they run."""
    labels = {"app": NAMESPACE, ROLE_LABEL: role}
    spec = {"containers": [{"name": "vllm", "image": "x"}], "nodeSelector": {"nowhere": "true"}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": f"m-{role}", "namespace": NAMESPACE},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def scaling(role: str) -> dict[str, Any]:
    """Return the autoscaler of a role, as a stack gives it: 5 prompts, or 40 % of the KV cache."""
    return autoscaler(
        AutoscalingArgs(
            replicas=ReplicaRange(min=1, max=4),
            model="m",
            namespace=NAMESPACE,
            signals=[SIGNALS[role]],
            target_name=f"m-{role}",
            targets=ScalingTargets(kv_cache_percent=40),
        )
    )


class Roles:
    """One running replica of each role, and the autoscalers."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster
        self.load = {role: Load() for role in SIGNALS}

    def replicas(self, role: str) -> int:
        """Return how many replicas the autoscaler wants."""
        path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/m-{role}"
        return self._cluster.kube.get(path)["spec"]["replicas"]

    def average(self, role: str) -> str | None:
        """Return the average that the autoscaler has read last."""
        path = f"/apis/autoscaling/v2/namespaces/{NAMESPACE}/horizontalpodautoscalers/m-{role}"
        found = self._cluster.kube.get(path).get("status", {}).get("currentMetrics") or [{}]
        # an autoscaler without a value writes an entry without a type
        return found[0].get("pods", {}).get("current", {}).get("averageValue")

    def run(self, role: str, address: str) -> None:
        """Let the first pod of a role run, with the address of its metrics."""
        pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
        selector = f"{ROLE_LABEL}={role}"
        (pod,) = self._cluster.until(
            lambda: self._cluster.kube.list(pods, label_selector=selector), f"a pod of {role}"
        )
        status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}
        self._cluster.kube.patch(f"{pods}/{pod['metadata']['name']}/status", {"status": status})


@pytest.fixture
def roles(cluster):
    found = Roles(cluster)
    addresses = {"decode": "127.51.0.1", "prefill": "127.51.0.2"}
    first = served(found, "decode", addresses["decode"], 0)
    second = served(found, "prefill", addresses["prefill"], first.server_address[1])
    account = {"name": "default", "namespace": NAMESPACE}
    cluster.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account},
        *(deployment(role) for role in SIGNALS),
        pod_monitoring(
            {
                "deployments": ["m-decode", "m-prefill"],
                "model": "m",
                "namespace": NAMESPACE,
                "role_label": ROLE_LABEL,
                "selector": {"app": NAMESPACE},
                "target_port": first.server_address[1],
            }
        ),
    )
    for role, address in addresses.items():
        found.run(role, address)
    yield found
    for server in (first, second):
        server.shutdown()
        server.server_close()
    cluster.kube.delete(f"/api/v1/namespaces/{NAMESPACE}")


def test_each_role_scales_by_its_own_metric_and_leaves_the_other_alone(cluster, roles):
    # a queue of decode replicas and a full cache of prefill replicas count for neither
    roles.load["decode"] = Load(waiting=40, kv_cache=0.3)
    roles.load["prefill"] = Load(waiting=12, kv_cache=0.95)
    cluster.apply(*(scaling(role) for role in SIGNALS))
    cluster.until(lambda: roles.replicas("prefill") == 3, "replicas for 12 prompts that wait")
    cluster.until(lambda: roles.average("decode") == "300m", "the cache of decode replicas")
    assert roles.replicas("decode") == 1

    roles.load["decode"].kv_cache = 0.79
    cluster.until(lambda: roles.replicas("decode") == 2, "replicas for a full cache")
    assert roles.replicas("prefill") == 3
