"""custom.metrics.k8s.io: the engines' own gauges by pod, for the horizontal autoscaler.

On GKE they go from PodMonitoring through Managed Prometheus and Cloud Monitoring to a metrics
adapter. The twin reads a pod's metrics page when it is asked: only pods that a PodMonitoring
selects, only names that its relabelling keeps. Names are `prometheus.googleapis.com|NAME|gauge`.
"""

import re
import threading
import urllib.error
import urllib.request
from urllib.parse import unquote

from twin.gke.agent import podports
from twin.gke.api_extension import ApiExtension, ApiGroup
from twin.gke.context import ClusterContext
from twin.gke.informer import Informer
from twin.gke.matching import container_port, selects
from twin.gke.reports import timestamp
from twin.kube import JsonObject

_API = ApiGroup("custom.metrics.k8s.io", "v1beta2", "pods/*", "MetricValueList")
_NAME = re.compile(r"^prometheus\.googleapis\.com\|(?P<name>[^|]+)\|gauge$")
_PATH = re.compile(
    rf"^/apis/{_API.group_version}/namespaces/(?P<ns>[^/]+)/pods/(?P<pod>[^/]+)/(?P<metric>[^/]+)$"
)
_SAMPLE = re.compile(r"^(?P<name>[a-zA-Z_:][\w:]*)(?:\{[^}]*\})? (?P<value>\S+)")
_SCRAPE_SECONDS = 2.0
_PODMONITORINGS = "/apis/monitoring.googleapis.com/v1/podmonitorings"


def keeps(endpoint: JsonObject, name: str) -> bool:
    """Say whether an endpoint's relabelling keeps a metric; only rules on `__name__` are known."""
    relabelling: list[JsonObject] = endpoint.get("metricRelabeling") or []
    for rule in relabelling:
        if rule.get("sourceLabels") != ["__name__"]:
            continue
        matched = re.fullmatch(rule.get("regex", "(.*)"), name) is not None
        if matched != (rule.get("action") == "keep") and rule.get("action") in ("keep", "drop"):
            return False
    return True


def sample_sum(page: str, name: str) -> float | None:
    """Return the sum of a metric's samples on a metrics page; None where it has none."""
    found = [
        float(match["value"])
        for line in page.splitlines()
        if (match := _SAMPLE.match(line)) and match["name"] == name
    ]
    return sum(found) if found else None


class CustomMetrics:
    """Serves the metrics of one cluster's pods and registers itself with its API server."""

    def __init__(self, ctx: ClusterContext) -> None:
        self._ctx = ctx
        wake = threading.Event()
        self._pods = Informer(ctx.kube, "/api/v1/pods", wake)
        self._monitorings = Informer(ctx.kube, _PODMONITORINGS, wake)
        self._server = ApiExtension(ctx, _API, self._answer)

    def run(self, stop: threading.Event) -> None:
        """Serve until `stop` is set."""
        self._pods.start(stop)
        self._monitorings.start(stop)
        self._server.run(stop)

    def _answer(self, path: str, selector: str) -> JsonObject | None:
        match = _PATH.match(path)
        if match is None:
            return None
        wanted = _NAME.match(unquote(match["metric"]))
        labels = dict(part.split("=", 1) for part in selector.split(",") if "=" in part)
        pods = [
            pod
            for pod in self._pods.items()
            if pod["metadata"]["namespace"] == match["ns"]
            and unquote(match["pod"]) in ("*", pod["metadata"]["name"])
            and selects({"matchLabels": labels}, pod["metadata"].get("labels", {}))
        ]
        values = {
            pod["metadata"]["name"]: value
            for pod in pods
            if wanted and (value := self._value(pod, wanted["name"])) is not None
        }
        return _value_list(match["ns"], unquote(match["metric"]), values)

    def _value(self, pod: JsonObject, name: str) -> float | None:
        for monitoring in self._monitorings.items():
            spec: JsonObject = monitoring["spec"]
            same_namespace = monitoring["metadata"]["namespace"] == pod["metadata"]["namespace"]
            labels = pod["metadata"].get("labels", {})
            if not same_namespace or not selects(spec["selector"], labels):
                continue
            for endpoint in spec["endpoints"]:
                if keeps(endpoint, name):
                    value = self._scrape(pod, endpoint, name)
                    if value is not None:
                        return value
        return None

    def _scrape(self, pod: JsonObject, endpoint: JsonObject, name: str) -> float | None:
        number = container_port(pod, endpoint["port"])
        if number is None or not pod.get("status", {}).get("podIP"):
            return None
        host, port = podports.resolve(self._ctx.dir, pod, number)
        url = f"http://{host}:{port}{endpoint.get('path', '/metrics')}"
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(url, timeout=_SCRAPE_SECONDS) as answer:
                return sample_sum(answer.read().decode(), name)
        except (OSError, urllib.error.HTTPError):
            return None


def _value_list(namespace: str, metric: str, values: dict[str, float]) -> JsonObject:
    now = timestamp()
    items = [
        {
            "describedObject": {
                "kind": "Pod",
                "namespace": namespace,
                "name": pod,
                "apiVersion": "/v1",
            },
            "metric": {"name": metric},
            "timestamp": now,
            "value": f"{round(value * 1000)}m",
        }
        for pod, value in sorted(values.items())
    ]
    return {
        "kind": "MetricValueList",
        "apiVersion": _API.group_version,
        "metadata": {},
        "items": items,
    }
