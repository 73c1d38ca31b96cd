"""The stack `local` in a good state: a server of models, objects of a cluster, and a project."""

import json
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from gke_inference.observability.alert_source import alerts
from gke_inference.observability.promql import Dialect
from infra.deploy.observability import scope
from infra.plan import Plan
from tests.unit.calibrate.recorded import Recorded
from twin.cluster.monitoring.promql import Sample, Series
from twin.wire.kube import KubeError

Json = dict[str, Any]
LABELS = {"env": "local", "managed-by": "gke-inference"}
MODEL = "llama-3.1-8b"
TPU_NODE = {
    "cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice",
    "cloud.google.com/gke-tpu-topology": "2x2",
    "cloud.google.com/reservation-name": "v6e-local",
    "node.kubernetes.io/instance-type": "ct6e-standard-4t",
}
GPU_NODE = {
    "cloud.google.com/gke-accelerator": "nvidia-l4",
    "node.kubernetes.io/instance-type": "g2-standard-12",
}


class Gateway(ThreadingHTTPServer):
    """Speaks OpenAI's API for models of every task."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.models = [MODEL, "sql", "support"]
        self.text = "An inference gateway chooses a replica."
        self.tokens = 12
        self.vector = [0.1, 0.2]
        self.png = "iVBORw0KGgoAAAA="
        self.video = b"\x00\x00\x00\x18ftypisom"
        self.refused: dict[str, tuple[int, str]] = {}
        """Status and message of a refusal, by model."""
        self.pause_seconds = 0.002
        """Between two pieces of a stream."""
        self.has_usage = True
        self.hosts: list[str] = []
        self.paths: list[str] = []
        self.models_by_key: dict[str, list[str]] = {}
        """Models that a value of `authorization` lists, if not all."""
        self.keys: dict[str, set[str]] = {}
        """Values of `authorization`, by model."""
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def close(self) -> None:
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: Gateway  # pyrefly: ignore[bad-override-mutable-attribute] - narrower

    def do_GET(self) -> None:
        self.server.hosts.append(self.headers["host"])
        if self.path == f"/v2/models/{MODEL}":
            given = {"name": "features", "datatype": "FP32", "shape": [-1, 3]}
            self._send({"inputs": [given], "outputs": [{"name": "probability"}]})
            return
        if not self.path.endswith("/v1/models"):
            self._send({"error": f"Unknown request URL: GET {self.path}."}, 404)
            return
        listed = self.server.models_by_key.get(self.headers["authorization"], self.server.models)
        self._send({"object": "list", "data": [_model(each) for each in listed]})

    def do_POST(self) -> None:
        self.server.paths.append(self.path)
        sent = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path == f"/v2/models/{MODEL}/infer":
            rows = [each["shape"] for each in sent["inputs"] if not any(each["data"])]
            values = self.server.vector[: len(rows)]
            self._send({"outputs": [{"name": "probability", "data": values}]})
            return
        keys = self.server.keys.setdefault(sent["model"], set())
        keys.add(self.headers["authorization"])
        refusal = self.server.refused.get(sent["model"])
        if refusal is not None:
            self._send({"error": {"message": refusal[1], "code": refusal[0]}}, refusal[0])
        elif sent.get("stream"):
            self._stream()
        elif self.path.endswith("/videos/sync"):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(self.server.video)
        else:
            self._send(self._answer())

    def _answer(self) -> Json:
        server = self.server
        usage = {"prompt_tokens": 9, "completion_tokens": server.tokens, "total_tokens": 21}
        head = {"id": "1", "created": 0, "model": MODEL}
        if self.path.endswith("/chat/completions"):
            message = {"role": "assistant", "content": server.text}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            return {**head, "object": "chat.completion", "choices": [choice], "usage": usage}
        if self.path.endswith("/completions"):
            choice = {"index": 0, "text": server.text, "finish_reason": "stop"}
            return {**head, "object": "text_completion", "choices": [choice], "usage": usage}
        if self.path.endswith("/embeddings"):
            entry = {"object": "embedding", "index": 0, "embedding": server.vector}
            return {**head, "object": "list", "data": [entry], "usage": usage}
        return {"created": 0, "data": [{"b64_json": server.png}]}

    def _stream(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        words = self.server.text.split()
        for word in words:
            self._event([{"index": 0, "delta": {"content": f"{word} "}}], None)
            threading.Event().wait(self.server.pause_seconds)
        if self.server.has_usage:
            self._event([], {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14})
        self.wfile.write(b"data: [DONE]\n\n")

    def _event(self, choices: list[Json], usage: Json | None) -> None:
        chunk = {
            "id": "1", "object": "chat.completion.chunk", "created": 0, "model": MODEL,
            "choices": choices, "usage": usage,
        }  # fmt: skip
        self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.flush()

    def _send(self, body: Json, status: int = 200) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Print nothing."""


def _model(name: str) -> Json:
    return {"id": name, "object": "model", "created": 0, "owned_by": "x"}


def node(name: str, labels: dict[str, str], created: str = "2026-11-22T12:00:10Z") -> Json:
    ready = {"type": "Ready", "status": "True"}
    return {
        "metadata": {"name": name, "labels": labels, "creationTimestamp": created},
        "spec": {},
        "status": {"conditions": [ready]},
    }


def pod(
    name: str, on: str, *, ready: str | None = "2026-11-22T12:06:00Z", restarts: int = 0
) -> Json:
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    return {
        "metadata": {
            "name": name,
            "labels": {"gke-inference/model": "llama-3-1-8b"},
            "creationTimestamp": "2026-11-22T12:00:00Z",
        },
        "spec": {"nodeName": on},
        "status": {
            "conditions": [{**condition, "lastTransitionTime": ready}],
            "containerStatuses": [{"name": "vllm", "restartCount": restarts}],
        },
    }


def metric(name: str, kind: str = "Pods") -> Json:
    source = {"metric": {"name": f"prometheus.googleapis.com|{name}|gauge"}}
    return {"type": kind, kind[:1].lower() + kind[1:]: source}


def scaler(name: str, metrics: list[Json], replicas: int = 1) -> Json:
    return {
        "metadata": {"name": name},
        "spec": {"metrics": metrics},
        "status": {"currentReplicas": replicas, "currentMetrics": list(metrics)},
    }


class Cluster:
    """Objects of a cluster by path, and the series of its metrics."""

    def __init__(self, address: str) -> None:
        monitorings = "/apis/monitoring.googleapis.com/v1/namespaces/models/podmonitorings"
        scalers = "/apis/autoscaling/v2/namespaces/models/horizontalpodautoscalers"
        gateways = "/apis/gateway.networking.k8s.io/v1/namespaces/models/gateways"
        self.pods = [pod("llama-0", "tpu")]
        self.nodes = [node("tpu", TPU_NODE), node("gpu", GPU_NODE)]
        self.monitorings = [
            {
                "metadata": {"name": "llama-3-1-8b"},
                "spec": {"selector": {"matchLabels": {"gke-inference/model": "llama-3-1-8b"}}},
            }
        ]
        queue, unplaced = metric("vllm:num_requests_waiting"), metric("unplaced", "External")
        self.scalers = [
            scaler("llama-3-1-8b-tpu", [queue]),
            scaler("llama-3-1-8b-gpu", [unplaced, queue], replicas=0),
        ]
        self.scalers[1]["status"]["currentMetrics"] = [unplaced, {"type": ""}]
        self.gateway: Json = {
            "status": {
                "addresses": [{"value": address}],
                "conditions": [{"type": "Programmed", "status": "True"}],
            }
        }
        self.buffer: Json = {}
        self.up = {"llama-0": 1.0}
        self.deployments: dict[str, Json] = {}
        self.series = Recorded()
        self.error: KubeError | None = None
        self.host: Any = None
        """The inside of its containers."""
        self.closed: Exception | None = None
        self.deleted: list[str] = []
        self._lists = {
            "/api/v1/namespaces/models/pods": lambda: self.pods,
            "/api/v1/nodes": lambda: self.nodes,
            "/api/v1/pods": lambda: self.pods,
            monitorings: lambda: self.monitorings,
            scalers: lambda: self.scalers,
        }
        buffers = "/apis/autoscaling.x-k8s.io/v1beta1/namespaces/models/capacitybuffers"
        self._objects = {
            f"{gateways}/acme-local-gateway": lambda: self.gateway,
            f"{buffers}/llama-3-1-8b-tpu": lambda: self.buffer,
        }

    def list(
        self, path: str, label_selector: str | None = None, field_selector: str | None = None
    ) -> list[Json]:
        if self.error is not None:
            raise self.error
        known = (None, "gke-inference/model", "gke-inference/model=llama-3-1-8b")
        assert label_selector in known
        return list(self._lists[path]())

    def get(self, path: str, **query: Any) -> Json:
        if self.error is not None:
            raise self.error
        if path.startswith(("/apis/apps/", "/apis/leaderworkerset.x-k8s.io/")):
            if (found := self.deployments.get(path)) is None:
                raise KubeError(404, "NotFound", "not found", {})
            return found
        return self._objects[path]()

    def delete(self, path: str, body: Json | None = None, **query: Any) -> Json:
        self.deleted.append(path)
        return {}

    @contextmanager
    def inside(self, pod: Json, container: str) -> Generator[Any]:
        if self.closed is not None:
            raise self.closed
        assert container == "vllm"
        yield self.host

    def history(self, expression: str, start: float, end: float, step: float) -> Sequence[Series]:
        """Return series of its engines."""
        return self.series.history(expression, start, end, step)

    def query(self, expression: str) -> Sequence[Sample]:
        assert expression == (
            'up{cluster="acme-local-us-central1",location="us-central1",namespace="models"}'
        )
        return [
            Sample({"job": "llama-3-1-8b", "pod": name, "instance": f"{name}:8000"}, value, 0.0)
            for name, value in self.up.items()
        ]


def google_resources(plan: Plan) -> dict[str, Json]:
    """Return what Google answers about the stack, by path."""
    project, names = plan.platform.project, plan.names
    title = f"{plan.platform.prefix} {plan.platform.environment}"
    monitoring = f"monitoring.googleapis.com/v3/projects/{project}"
    channels = [
        {
            "name": f"channels/{name}",
            "displayName": f"{title}: {name}",
            "type": "webhook_tokenauth" if each.kind == "webhook" else each.kind.value,
        }
        for name, each in plan.platform.monitoring.notify.items()
    ]
    policies = [
        {
            "displayName": f"{title}: {each.name}",
            "enabled": True,
            "notificationChannels": [channel["name"] for channel in channels],
        }
        for each in alerts(scope(plan), Dialect.MANAGED)
    ]
    found: dict[str, Json] = {
        f"{monitoring}/alertPolicies": {"alertPolicies": policies},
        f"{monitoring}/notificationChannels": {"notificationChannels": channels},
    }
    for region in plan.regions.values():
        where = f"projects/{project}/locations/{region.location}/clusters/{region.cluster_name}"
        found[f"container.googleapis.com/v1/{where}"] = {
            "resourceLabels": LABELS,
            "costManagementConfig": {"enabled": True},
        }
        for role in ("models", "caches"):
            bucket = f"storage.googleapis.com/storage/v1/b/{names.bucket(role, region.name)}"
            found[bucket] = {"labels": LABELS}
    return found
